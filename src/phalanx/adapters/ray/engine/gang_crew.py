"""A gang of actors. Each actor is created in its place, and again whenever the gang is placed
again.
"""

from __future__ import annotations

import asyncio
from typing import Any

import ray
from ray.exceptions import RayActorError, RayError

from phalanx.adapters.ray.engine.gang_places import LOOK_AGAIN_S, GangPlaces, inside
from phalanx.errors import ActorDiedError, PhalanxError
from phalanx.model.ids import GangId

Turn = tuple[bytes, int]
"""A caller's id, and the number of its call to this actor."""


class _Turns:
    """Keeps the calls to one actor in order. The calls of each caller start in the order in which
    the caller made them, even if they arrive in another order. Ray keeps no order among the calls
    of an actor whose methods are coroutines.
    """

    def __init__(self) -> None:
        self._next: dict[bytes, int] = {}
        self._early: dict[Turn, asyncio.Future[None]] = {}
        self._passed: set[Turn] = set()

    async def mine(self, turn: Turn) -> None:
        """Wait until the caller's earlier calls have started."""
        if turn[1] != self._next.get(turn[0], 0):
            waits = self._early[turn] = asyncio.get_running_loop().create_future()
            await waits

    def passed(self, turn: Turn) -> None:
        """Note that the call has started, or will never start."""
        self._passed.add(turn)
        caller = turn[0]
        while (one := (caller, self._next.get(caller, 0))) in self._passed:
            self._passed.remove(one)
            self._next[caller] = one[1] + 1
        due = self._early.pop((caller, self._next.get(caller, 0)), None)
        if due is not None and not due.done():
            due.set_result(None)


class _Seat:
    """A member of the gang, with its actor while the actor exists."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.turns = _Turns()
        self.settled = asyncio.Event()
        """Set when the actor exists, or will never exist."""
        self.handle: Any = None
        self.failure: BaseException | None = None

    def lost(self, handle: Any) -> None:
        if self.handle is handle:
            self.handle = None
            self.settled.clear()


class Crew:
    """The actors of one gang. Must be constructed in the event loop that uses it."""

    def __init__(self, places: GangPlaces, group: GangId, members: int, call: Any) -> None:
        self._places = places
        self._group = group
        self._call = call
        self._seats = {index: _Seat(index) for index in range(members)}
        self._tasks = {
            index: asyncio.create_task(self._occupy(seat)) for index, seat in self._seats.items()
        }

    async def call(
        self,
        index: int,
        turn: Turn,
        method: str,
        options: dict[str, Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Call a method and return its result.

        Raises ActorDiedError when the actor will never exist.
        """
        seat = self._seats.get(index)
        if seat is None:
            raise ActorDiedError("The actor was killed, or its last handle was dropped.")
        try:
            await seat.turns.mine(turn)
            while seat.handle is None and seat.failure is None:
                await seat.settled.wait()
            if seat.failure is not None:
                raise seat.failure
            handle = seat.handle
            refs = getattr(handle, method).options(**options).remote(*args, **kwargs)
        finally:
            seat.turns.passed(turn)
        try:
            return await (asyncio.gather(*refs) if isinstance(refs, list) else refs)
        except RayActorError:
            seat.lost(handle)  # calls after this error wait for the next actor
            raise

    def dismiss(self, index: int) -> None:
        """End an actor. The actor is never created again."""
        seat = self._seats.pop(index, None)
        if seat is not None:
            self._tasks.pop(index).cancel()
            seat.failure = ActorDiedError("The actor was killed.")
            seat.settled.set()
            if seat.handle is not None:
                ray.kill(seat.handle)
            self._places.end(self._group, index)

    async def _occupy(self, seat: _Seat) -> None:
        """Create the member's actor. When the actor has ended, create it again if the member gets
        another place, or if the actor may still restart.
        """
        try:
            cls, options, restarts, args, kwargs = await self._call
            while True:
                place = await self._places.of(self._group, seat.index)
                handle = cls.options(**options, scheduling_strategy=inside(place)).remote(
                    place.view, self._group, seat.index, *args, **kwargs
                )
                error = await self._serve(seat, handle)
                if await self._places.is_taken(self._group, seat.index, node_died=False):
                    continue
                if not restarts or not isinstance(error, RayActorError):
                    raise error
                restarts -= 1
        except (RayError, PhalanxError) as error:  # raised, too, for a gang removed while it waited
            seat.failure = error
            seat.settled.set()
            self._places.end(self._group, seat.index)

    async def _serve(self, seat: _Seat, handle: Any) -> BaseException:
        """Wait until the actor ends, and return the reason."""
        try:
            await handle.__ray_ready__.remote()
            seat.handle = handle
            seat.settled.set()
            while True:
                await handle.__ray_ready__.remote()
                await asyncio.sleep(LOOK_AGAIN_S)
        except RayError as error:
            seat.lost(handle)
            ended: BaseException = error
            return ended
