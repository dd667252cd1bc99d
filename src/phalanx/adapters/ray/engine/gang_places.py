"""Where the members of a program's gangs have their places, as the scheduler says it."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from phalanx.adapters.ray.engine.strategies import native_group
from phalanx.adapters.ray.scheduler.client import SchedulerClient
from phalanx.errors import TaskPlacementGroupRemoved
from phalanx.protocol.requests.gangs import EndMembers
from phalanx.protocol.requests.groups import WaitGroup
from phalanx.protocol.requests.ray import GangPlace, GetMemberState, ListGangPlaces, ReportBatches
from phalanx.protocol.requests.request import Request

R = TypeVar("R")

LOOK_AGAIN_S = 0.1
ALIVE_EVERY_S = 1.0
"""So often the scheduler hears that the program lives."""


class GangPlaces:
    """Asks for one program, which `origin` names."""

    def __init__(self, origin: bytes) -> None:
        self._origin = origin
        self._scheduler = SchedulerClient.connect()

    async def of(self, group: bytes, index: int) -> GangPlace:
        """A member's place, once it has one. Raises TaskPlacementGroupRemoved for one that never
        will."""
        while True:
            if not await self._ask(WaitGroup(group)):
                raise TaskPlacementGroupRemoved("The task was not started: its gang was removed.")
            place = (await self._ask(ListGangPlaces(group))).get(index)
            if place is not None and place.state == "running":
                return place
            await asyncio.sleep(LOOK_AGAIN_S)

    async def is_taken(self, group: bytes, index: int, node_died: bool) -> bool:
        """Whether the member lost its place, and waits for another; else it is its own failure.

        Of a dead node the scheduler learns only when it has been silent for long enough.
        """
        while True:
            state = await self._ask(GetMemberState(group, index))
            if state != "running":
                return state in ("pending", "starting", "leaving")
            if not node_died:
                return False
            await asyncio.sleep(LOOK_AGAIN_S)

    def end(self, group: bytes, index: int) -> None:
        """The member is over."""
        self._scheduler.ask_async(EndMembers(group, [index]), origin=self._origin)

    async def keep_alive(self) -> None:
        """For as long as the program lives; what is its own goes when nothing more is heard."""
        while True:
            await self._ask(ReportBatches({}, {}, []))
            await asyncio.sleep(ALIVE_EVERY_S)

    async def _ask(self, request: Request[R]) -> R:
        return await asyncio.wrap_future(self._scheduler.ask_async(request, origin=self._origin))


def inside(place: GangPlace) -> PlacementGroupSchedulingStrategy:
    """The strategy of what runs in a place."""
    return PlacementGroupSchedulingStrategy(
        native_group(bytes.fromhex(place.placement_group)), place.bundle
    )
