"""Remembers which nodes refused gangs recently, so that cycles prefer other nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from phalanx.head.clock import Clock
from phalanx.head.gangs.gang import Gang
from phalanx.model.ids import GangId
from phalanx.scheduler.devices.sets import EMPTY, ResourceSet
from phalanx.scheduler.placement.selector.tried import TriedPlaces


class Refusals:
    """The refusals by gang and node. `TriedPlaces` decides how long each is kept."""

    def __init__(self, clock: Clock, gang_amended: Callable[[Gang], None]) -> None:
        """`gang_amended` is called when the scheduler must read a gang again."""
        self._clock = clock
        self._gang_amended = gang_amended
        self._tried = TriedPlaces[bytes]()
        self._gangs: dict[GangId, tuple[Gang, int]] = {}
        """The gangs that nodes refused, each with the number of refusing nodes that the scheduler
        last read.
        """

    def refused(self, gang: Gang, node_id: str, members: Iterable[int]) -> None:
        """Note that the node has no room for these members, although the head's view showed
        room.
        """
        needs = (ResourceSet.from_mapping(gang.members[index].need) for index in members)
        self._tried.refused(gang.gang_id, node_id, sum(needs, EMPTY), self._clock.now())
        self._gangs[gang.gang_id] = (gang, len(self.of(gang)))
        self._gang_amended(gang)

    def of(self, gang: Gang) -> Mapping[str, ResourceSet]:
        """Return the resources that nodes refused to the gang, by node."""
        return self._tried.of(gang.gang_id, self._clock.now())

    def expire(self) -> bool:
        """Drop refusals that are too old. Returns whether any was dropped, so that a gang may again
        ask a node that had refused it.
        """
        expired = [(gang, left) for gang, known in self._gangs.values()
                   if (left := len(self.of(gang))) < known]  # fmt: skip
        for gang, left in expired:
            self._gangs[gang.gang_id] = (gang, left)
            self._gang_amended(gang)
            if not left:
                del self._gangs[gang.gang_id]
        return bool(expired)

    def forget(self, gang: Gang) -> None:
        """Forget a gang that is over."""
        self._gangs.pop(gang.gang_id, None)
        self._tried.forget(gang.gang_id)
