"""The hub of a program's gangs: an actor that starts each member once the member has a place. A
member's reference must exist before the member has a place, but Ray needs the place when a task is
submitted. Therefore a member's reference is the result of a call of this actor. The call waits for
the gang's place, runs the member there as a Ray task, and returns its result. The actor ends with
the program.
"""

from __future__ import annotations

import asyncio
from typing import Any

import ray
from ray.exceptions import NodeDiedError, RaySystemError, WorkerCrashedError

from phalanx.adapters.ray.engine.gang_crew import Crew, Turn
from phalanx.adapters.ray.engine.gang_places import GangPlaces, inside
from phalanx.errors import TaskPlacementGroupRemoved
from phalanx.model.ids import GangId

_BROKEN = (WorkerCrashedError, NodeDiedError, TaskPlacementGroupRemoved, RaySystemError)
"""The errors of a member's task whose process was killed."""


class _Gang:
    def __init__(self, members: int, least: int) -> None:
        self.left = members
        self.least = least
        self.failed = 0
        self.members = members
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def note_failure(self, error: BaseException) -> None:
        """Note that a member failed. If too few members are left, all members end with this
        error.
        """
        self.failed += 1
        if self.members - self.failed < self.least and not self.failure.done():
            self.failure.set_exception(error)
            self.failure.exception()  # there may be no other member left to receive the error


class GangHub:
    """The hub's actor. `origin` identifies the program to the scheduler."""

    def __init__(self, origin: bytes) -> None:
        self._places = GangPlaces(origin)
        self._gangs: dict[bytes, _Gang] = {}
        self._crews: dict[bytes, asyncio.Future[Crew]] = {}
        self._keeping_alive: asyncio.Task[None] | None = None

    async def member(
        self, group: GangId, index: int, members: int, least: int, call: list[Any]
    ) -> Any:
        """Run a member as soon as it has a place, and return its result.

        `call` is a list with one reference, to (Ray function, options, retries, args, kwargs).
        """
        self._live()
        gang = self._gangs.get(group)
        if gang is None:
            gang = self._gangs[group] = _Gang(members, least)
        runs = asyncio.create_task(self._run(group, index, call[0]))
        try:
            await asyncio.wait({runs, gang.failure}, return_when=asyncio.FIRST_COMPLETED)
            if not runs.done():
                gang.failure.result()
            return runs.result()
        except asyncio.CancelledError:
            gang.note_failure(
                TaskPlacementGroupRemoved("A member of this task's gang was cancelled.")
            )
            raise
        except Exception as error:
            gang.note_failure(error)
            raise
        finally:
            runs.cancel()
            gang.left -= 1
            if not gang.left:
                del self._gangs[group]
            self._places.end(group, index)

    async def hire(self, group: GangId, members: int, call: list[Any]) -> None:
        """Begin to create a gang of actors. `call` is a list with one reference, to (Ray class,
        options, restarts, args, kwargs).
        """
        self._live()
        self._crew(group).set_result(Crew(self._places, group, members, call[0]))

    def _crew(self, group: GangId) -> asyncio.Future[Crew]:
        """Return the future with a gang's actors. It is pending until `hire` was called for the
        gang, because other calls may arrive earlier.
        """
        crew = self._crews.get(group)
        if crew is None:
            crew = self._crews[group] = asyncio.get_running_loop().create_future()
        return crew

    async def call(
        self,
        group: GangId,
        index: int,
        turn: Turn,
        method: str,
        options: dict[str, Any],
        inputs: list[Any],
    ) -> Any:
        """Call a method of a gang's actor and return its result. `inputs`: (args, kwargs)."""
        crew = await self._crew(group)
        return await crew.call(index, turn, method, options, *inputs)

    async def dismiss(self, group: GangId, index: int) -> None:
        """End an actor of a gang, because the program has killed it or dropped its last handle."""
        (await self._crew(group)).dismiss(index)

    def _live(self) -> None:
        if self._keeping_alive is None:
            self._keeping_alive = asyncio.create_task(self._places.keep_alive())

    async def _run(self, group: GangId, index: int, call: Any) -> Any:
        function, options, retries, args, kwargs = await call
        returns = options.get("num_returns") or 1
        while True:
            place = await self._places.of(group, index)
            refs = function.options(**options, scheduling_strategy=inside(place)).remote(
                place.view, group, index, *args, **kwargs
            )
            try:
                return await (refs if returns == 1 else asyncio.gather(*refs))
            except asyncio.CancelledError:
                ray.cancel(refs if returns == 1 else refs[0], force=True)
                raise
            except _BROKEN as error:
                if await self._places.is_taken(group, index, isinstance(error, NodeDiedError)):
                    continue
                if not retries or not isinstance(error, WorkerCrashedError):
                    raise
                retries -= 1  # the retry has the same rank, in the same place
