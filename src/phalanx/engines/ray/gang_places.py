"""Where the members of a program's gangs have their places, as the scheduler says it."""

from __future__ import annotations

import asyncio
from typing import Any

from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from phalanx.engines.ray.scheduler.client import SchedulerClient
from phalanx.engines.ray.strategies import native_group
from phalanx.errors import TaskPlacementGroupRemoved

LOOK_AGAIN_S = 0.1
TELL_S = 1.0
"""So often the scheduler hears that the program lives."""


class GangPlaces:
    """Asks for one program, which `origin` names."""

    def __init__(self, origin: bytes) -> None:
        self._origin = origin
        self._scheduler = SchedulerClient.connect()

    async def of(self, group: bytes, index: int) -> dict[str, Any]:
        """A member's place, once it has one. Raises TaskPlacementGroupRemoved for one that never
        will."""
        while True:
            if not await self._ask("wait_group", group=group):
                raise TaskPlacementGroupRemoved("The task was not started: its gang was removed.")
            place: dict[str, Any] = (await self._ask("places", group=group)).get(index, {})
            if place.get("state") == "running":
                return place
            await asyncio.sleep(LOOK_AGAIN_S)

    async def is_taken(self, group: bytes, index: int, node_died: bool) -> bool:
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

    def end(self, group: bytes, index: int) -> None:
        """The member is over."""
        self._scheduler.ask_later(
            "batch.end_members", origin=self._origin, group=group, indexes=[index]
        )

    async def tell_of_life(self) -> None:
        """For as long as the program lives; what is its own goes when nothing more is heard."""
        while True:
            await self._ask("gate.told", sized={}, done={}, running=[])
            await asyncio.sleep(TELL_S)

    async def _ask(self, method: str, **args: Any) -> Any:
        return await asyncio.wrap_future(
            self._scheduler.ask_later(method, origin=self._origin, **args)
        )


def inside(place: dict[str, Any]) -> PlacementGroupSchedulingStrategy:
    """The strategy of what runs in a place."""
    return PlacementGroupSchedulingStrategy(
        native_group(bytes.fromhex(place["placement_group"])), place["bundle"]
    )
