"""A program's gangs of tasks: an actor that starts members when they have their places.

A member's reference has to be there before anybody knows where it will run, and Ray wants to know
that when a task is submitted. So references are of calls to this actor: each waits for the gang's
places, has the member run there as a task of Ray, and passes its result on. The actor ends with
the program.
"""

from __future__ import annotations

import asyncio
from typing import Any

import ray
from ray.exceptions import NodeDiedError, RaySystemError, WorkerCrashedError
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from phalanx.engines.ray.scheduler.client import SchedulerClient
from phalanx.engines.ray.strategies import native_group
from phalanx.errors import TaskPlacementGroupRemoved

LOOK_AGAIN_S = 0.1
TELL_S = 1.0
"""So often the scheduler hears that the program lives."""
_BROKEN = (WorkerCrashedError, NodeDiedError, TaskPlacementGroupRemoved, RaySystemError)
"""What a member's task ends with when its process is taken from it."""


class _Gang:
    def __init__(self, members: int, least: int) -> None:
        self.left = members
        self.least = least
        self.failed = 0
        self.members = members
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def has_failed(self, error: BaseException) -> None:
        """A member has failed: with too few left, the others end with the same error."""
        self.failed += 1
        if self.members - self.failed < self.least and not self.failure.done():
            self.failure.set_exception(error)
            self.failure.exception()  # nobody may be left to hear of it


class GangHub:
    """The actor. `origin` names the program to the scheduler."""

    def __init__(self, origin: bytes) -> None:
        self._origin = origin
        self._scheduler = SchedulerClient.connect()
        self._gangs: dict[bytes, _Gang] = {}
        self._tells: asyncio.Task[None] | None = None

    async def member(
        self, group: bytes, index: int, members: int, least: int, call: list[Any]
    ) -> Any:
        """A member's result; `call`: a reference to (function of Ray, options, retries, args,
        kwargs)."""
        if self._tells is None:
            self._tells = asyncio.create_task(self._tell_of_life())
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
            gang.has_failed(TaskPlacementGroupRemoved("A member of its gang was cancelled."))
            raise
        except Exception as error:
            gang.has_failed(error)
            raise
        finally:
            runs.cancel()
            gang.left -= 1
            if not gang.left:
                del self._gangs[group]
            self._scheduler.ask_later(
                "batch.end_members", origin=self._origin, group=group, indexes=[index]
            )

    async def _run(self, group: bytes, index: int, call: Any) -> Any:
        function, options, retries, args, kwargs = await call
        returns = options.get("num_returns") or 1
        while True:
            place = await self._place(group, index)
            strategy = PlacementGroupSchedulingStrategy(
                native_group(bytes.fromhex(place["placement_group"])), place["bundle"]
            )
            refs = function.options(**options, scheduling_strategy=strategy).remote(
                place["view"], group, index, *args, **kwargs
            )
            try:
                return await (refs if returns == 1 else asyncio.gather(*refs))
            except asyncio.CancelledError:
                ray.cancel(refs if returns == 1 else refs[0], force=True)
                raise
            except _BROKEN as error:
                if await self._is_taken(group, index, isinstance(error, NodeDiedError)):
                    continue
                if not retries or not isinstance(error, WorkerCrashedError):
                    raise
                retries -= 1  # with the same rank in the same place

    async def _place(self, group: bytes, index: int) -> dict[str, Any]:
        """Where the member is to run, once it has a place."""
        while True:
            if not await self._ask("wait_group", group=group):
                raise TaskPlacementGroupRemoved("The task was not started: its gang was removed.")
            place: dict[str, Any] = (await self._ask("places", group=group)).get(index, {})
            if place.get("state") == "running":
                return place
            await asyncio.sleep(LOOK_AGAIN_S)

    async def _is_taken(self, group: bytes, index: int, node_died: bool) -> bool:
        """Whether the member lost its place, and waits for another; else it is its own failure.

        Of a dead node the scheduler learns only when it has been silent for long enough.
        """
        while True:
            state = (await self._ask("member_state", group=group, index=index)) or ""
            if state != "running":
                return state in ("pending", "starting", "leaving")
            if not node_died:
                return False
            await asyncio.sleep(LOOK_AGAIN_S)

    async def _ask(self, method: str, **args: Any) -> Any:
        return await asyncio.wrap_future(
            self._scheduler.ask_later(method, origin=self._origin, **args)
        )

    async def _tell_of_life(self) -> None:
        while True:
            await self._ask("gate.told", sized={}, done={}, running=[])
            await asyncio.sleep(TELL_S)
