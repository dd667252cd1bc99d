"""Checks whether a gang has its minimum. Members that have a place, or are on their way to one,
count.
"""

from __future__ import annotations

from typing import Protocol

from phalanx.head.gangs.gang import Gang
from phalanx.head.gangs.member_states import HELD, PLACING


class GangSpecs(Protocol):
    """Answers questions about gangs that depend on their jobs."""

    def min_member(self, gang: Gang) -> int:
        """Return how many members must still have places: the minimum less the members that have
        ended.
        """
        ...

    def is_live(self, gang: Gang, index: int) -> bool:
        """Whether a member that has its place counts for the minimum."""
        ...


def has_minimum(gang: Gang, specs: GangSpecs, more: int = 0) -> bool:
    """Whether the gang has its minimum if this many more members count as placed."""
    here = more
    for index, member in enumerate(gang.members):
        here += member.state == PLACING or (member.state == HELD and specs.is_live(gang, index))
    return here >= specs.min_member(gang)
