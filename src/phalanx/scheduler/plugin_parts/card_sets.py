"""Sets of cards inside a node: how many sets are bound to owners, and how many of the other sets
are free.

Any cards can form a set, so only the numbers of sets are computed. A set of a level is split into
sets of the level below when one of its parts is bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

CARD = 1000
"""The number of units in one card. Owners hold units, because they may hold parts of a card."""


class CardSets:
    """The levels of sets inside nodes. `sizes`: the number of cards in a set, by level. `levels`:
    the level of the cells that each owner is promised; an owner without a promise holds single
    cards.
    """

    def __init__(self, sizes: Sequence[int], levels: Mapping[str, int]) -> None:
        self._sizes = tuple(sizes)
        self._level_of = dict(levels)

    def sets(self, level: int, units: int) -> int:
        """Return how many sets of a level are needed for this many units."""
        return -(-units // (self._sizes[level] * CARD))

    def own(self, held: Mapping[str, int]) -> list[int]:
        """Return for each level the number of bound sets. `held`: the units that owners hold."""
        own = [0] * len(self._sizes)
        for owner, units in held.items():
            level = self._level_of.get(owner, 0)
            if level < len(self._sizes):
                own[level] += self.sets(level, units)
        return own

    def free(self, cards: int, held: Mapping[str, int]) -> list[int]:
        """Return for each level the number of free sets among a node's `cards`. A set that is a
        part of a larger free set does not count. A negative number means that more cards are held
        than the node has.
        """
        own = self.own(held)
        opened = 0
        touched = []
        for level, size in enumerate(self._sizes):
            if level:  # cards that fill no whole set are taken first
                small = self._sizes[level - 1]
                opened = -(-max(0, opened - cards % size // small) * small // size)
            opened += own[level]
            touched.append(opened)
        free = [0] * len(self._sizes)
        above = 0
        for level in reversed(range(len(self._sizes))):
            size = self._sizes[level]
            free[level] = cards // size - above // size - touched[level]
            above += (own[level] + max(0, free[level])) * size
        return free
