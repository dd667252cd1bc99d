"""The places of the members of a program's gangs, as the scheduler assigns them."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from phalanx.adapters.ray.engine.strategies import native_group
from phalanx.adapters.ray.scheduler.client import SchedulerClient
from phalanx.errors import TaskPlacementGroupRemoved
from phalanx.model.ids import GangId, group_id_of
from phalanx.protocol.requests.gangs import EndMembers
from phalanx.protocol.requests.groups import WaitGroup
from phalanx.protocol.requests.ray import GangPlace, GetMemberState, ListGangPlaces, ReportBatches
from phalanx.protocol.requests.request import Request

R = TypeVar("R")

LOOK_AGAIN_S = 0.1
ALIVE_EVERY_S = 1.0
"""Seconds between two messages that tell the scheduler that the program is alive."""


class GangPlaces:
    """The client that asks the scheduler for the places of one program's members. `origin`
    identifies the program.
    """

    def __init__(self, origin: bytes) -> None:
        self._origin = origin
        self._scheduler = SchedulerClient.connect()

    async def of(self, group: GangId, index: int) -> GangPlace:
        """Wait for a member's place, and return it. Raises TaskPlacementGroupRemoved if the member
        will never have a place.
        """
        while True:
            if not await self._ask(WaitGroup(group)):
                raise TaskPlacementGroupRemoved(
                    "The task did not start, because its gang was removed."
                )
            place = (await self._ask(ListGangPlaces(group))).get(index)
            if place is not None and place.state == "running":
                return place
            await asyncio.sleep(LOOK_AGAIN_S)

    async def is_taken(self, group: GangId, index: int, node_died: bool) -> bool:
        """Whether a failed member lost its place and waits for another place. If not, the member
        itself has failed. `node_died`: whether Ray reports that the member's node is dead. If so,
        this call waits until the scheduler has noticed the death, too.
        """
        while True:
            state = await self._ask(GetMemberState(group, index))
            if state != "running":
                return state in ("pending", "starting", "leaving")
            if not node_died:
                return False
            await asyncio.sleep(LOOK_AGAIN_S)

    def end(self, group: GangId, index: int) -> None:
        """Tell the scheduler that the member has ended."""
        self._scheduler.ask_async(EndMembers(group, [index]), origin=self._origin)

    async def keep_alive(self) -> None:
        """Report to the scheduler while the program lives. The scheduler ends the program's gangs
        when the reports stop.
        """
        while True:
            await self._ask(ReportBatches({}, {}, []))
            await asyncio.sleep(ALIVE_EVERY_S)

    async def _ask(self, request: Request[R]) -> R:
        return await asyncio.wrap_future(self._scheduler.ask_async(request, origin=self._origin))


def inside(place: GangPlace) -> PlacementGroupSchedulingStrategy:
    """Return the scheduling strategy that puts work into a place."""
    return PlacementGroupSchedulingStrategy(
        native_group(group_id_of(place.placement_group)), place.bundle
    )
