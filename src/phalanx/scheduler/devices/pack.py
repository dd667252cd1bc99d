"""The exact rule for choosing devices: take a set of well-connected devices, so that the remaining
devices form well-connected sets, too.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain, combinations
from math import comb

import numpy as np
import numpy.typing as npt

Masks = npt.NDArray[np.int64]
"""An array of bit masks, each of which stands for a set of devices; or an array of values, with the
value of each set at the index that equals the set's mask.
"""

EXACT_UP_TO = 16
"""The largest number of devices for which every subset has an entry in tables. For 16 devices, a
table of 2**16 sets needs half a MiB.
"""

_REMEMBERED = 10_000
"""If this number of picks is remembered, all of them are forgotten before the next is
remembered.
"""

_NEVER = np.int64(-(2**62))


class PackTables:
    """The value of every subset of one machine's devices, so that a pick is a few array operations.

    `affinity[i][j]` is the value of having devices i and j together: a symmetric matrix of whole
    numbers. `strength[i][j]` is the strength of the link between them; a pick may require a
    minimum.
    """

    def __init__(
        self, affinity: tuple[tuple[int, ...], ...], strength: tuple[tuple[int, ...], ...]
    ) -> None:
        self._count = len(affinity)
        self._strength = strength
        self._inside = _sums_inside(affinity)
        self._popcount = _popcounts(self._count)
        self._subsets: dict[int, Masks] = {}
        self._left_worth: dict[int, Masks] = {}
        self._linked: dict[int, npt.NDArray[np.bool_]] = {}
        self._picked: dict[tuple[int, int, int, int], int] = {}

    def pick(self, free: int, count: int, required: int = 0, least_strength: int = 0) -> int:
        """Return a set of `count` devices out of `free` that includes `required`; 0 if there is
        none. All sets are masks.

        The set S with the largest inside(S) + P(free - S) wins. inside(S) is the value of all pairs
        in S. P is the largest value that disjoint sets of the same size can have together in the
        rest. Among equals, the largest inside(S) wins, then the smallest value of pairs between S
        and the rest, then the lowest numbers.
        """
        key = (free, count, required, least_strength)
        known = self._picked.get(key)
        if known is None:
            if len(self._picked) >= _REMEMBERED:
                self._picked.clear()
            known = self._picked[key] = self._search(free, count, required, least_strength)
        return known

    def prepare(self, count: int) -> None:
        """Compute the tables for sets of `count` devices before the first pick."""
        self._sets_of(count)
        self._left_worth_of(count)

    def _search(self, free: int, count: int, required: int, least_strength: int) -> int:
        if required & ~free or not 0 < count <= free.bit_count():
            return 0
        sets = self._sets_of(count)
        kept = sets[(sets & (free ^ -1) == 0) & (sets & required == required)]
        if least_strength:
            kept = kept[self._linked_at(least_strength)[kept]]
        if not kept.size:
            return 0
        inside, rest = self._inside, free ^ kept
        worth = inside[kept] + self._left_worth_of(count)[rest]
        kept = kept[worth == worth.max()]
        worth = inside[kept]
        kept = kept[worth == worth.max()]
        kept_and_rest = inside[kept] + inside[free ^ kept]  # large where few links are cut
        return int(kept[kept_and_rest.argmax()])

    def _sets_of(self, count: int) -> Masks:
        """Return all sets of `count` devices, in the order of their ascending numbers."""
        if count not in self._subsets:
            self._subsets[count] = (1 << _choices(self._count, count)).sum(axis=1)
        return self._subsets[count]

    def _left_worth_of(self, count: int) -> Masks:
        """Return, for each set X, the largest total value of floor(|X| / count) disjoint sets of
        `count` devices within X.
        """
        if count not in self._left_worth:
            self._left_worth[count] = self._most_in_disjoint(count)
        return self._left_worth[count]

    def _most_in_disjoint(self, count: int) -> Masks:
        size = 1 << self._count
        if count == 1:
            return np.zeros(size, np.int64)
        exact = np.full(size, _NEVER)  # the best sum over all sets that use up the devices exactly
        exact[0] = 0
        every = np.arange(size, dtype=np.int64)
        for whole in range(count, self._count + 1, count):
            targets = every[self._popcount == whole]
            # One group contains the lowest device; its other devices are any of the rest.
            lowest = targets & -targets
            members = _bits(targets ^ lowest, whole - 1)
            others = _choices(whole - 1, count - 1)
            if len(others) <= targets.size:
                best = np.full(targets.size, _NEVER)
                for places in others.tolist():
                    group = lowest | members[places].sum(axis=0)
                    np.maximum(best, self._inside[group] + exact[targets ^ group], out=best)
                exact[targets] = best
            else:
                for at, target in enumerate(targets):
                    groups = lowest[at] | members[:, at][others].sum(axis=1)
                    exact[target] = (self._inside[groups] + exact[target ^ groups]).max()
        # Devices that are left over do not count. The best value of X is that of its best subset of
        # the largest full size, because another full size is never better.
        for bit in range(self._count):
            without = exact.reshape(-1, 2, 1 << bit)
            np.maximum(without[:, 1], without[:, 0], out=without[:, 1])
        return exact

    def _linked_at(self, least: int) -> npt.NDArray[np.bool_]:
        """Return, for each set, whether all links between its devices have at least the strength
        `least`.
        """
        if least not in self._linked:
            linked = np.ones(1 << self._count, np.bool_)
            for i, j in combinations(range(self._count), 2):
                if self._strength[i][j] < least:
                    pair = (1 << i) | (1 << j)
                    linked &= np.arange(linked.size) & pair != pair
            self._linked[least] = linked
        return self._linked[least]


@lru_cache(maxsize=64)
def tables_for(
    affinity: tuple[tuple[int, ...], ...], strength: tuple[tuple[int, ...], ...]
) -> PackTables:
    """Return the tables that all nodes of one machine type share."""
    return PackTables(affinity, strength)


def grow(affinity: tuple[tuple[int, ...], ...], free: list[int], count: int) -> tuple[int, ...]:
    """Return the best of several sets: one is grown greedily from each device. This is used for
    more than `EXACT_UP_TO` devices.
    """
    best: tuple[int, tuple[int, ...]] | None = None
    for first in free:
        chosen = [first]
        worth = 0
        while len(chosen) < count:
            gains = [(-sum(affinity[i][j] for j in chosen), i) for i in free if i not in chosen]
            loss, index = min(gains)
            worth -= loss
            chosen.append(index)
        found = (-worth, tuple(sorted(chosen)))
        best = found if best is None else min(best, found)
    return best[1] if best else ()


def _popcounts(count: int) -> Masks:
    counts = np.zeros(1, np.int64)
    for _ in range(count):
        counts = np.concatenate([counts, counts + 1])
    return counts


def _sums_inside(affinity: tuple[tuple[int, ...], ...]) -> Masks:
    """Return, for each set, the sum of `affinity` over the pairs in the set."""
    sums = np.zeros(1, np.int64)
    for i, row in enumerate(affinity):
        to_new = np.zeros(1, np.int64)  # the gain of each set when device i is added
        for j in range(i):
            to_new = np.concatenate([to_new, to_new + row[j]])
        sums = np.concatenate([sums, sums + to_new])
    return sums


def _choices(size: int, count: int) -> Masks:
    """Return every choice of `count` ascending numbers below `size`, one choice per row, in
    order.
    """
    flat = np.fromiter(chain.from_iterable(combinations(range(size), count)), np.int64)
    return flat.reshape(comb(size, count), count)


def _bits(masks: Masks, count: int) -> Masks:
    """Return the single bits of each mask, lowest first, with one row for each mask. Every mask
    must have `count` bits.
    """
    bits = np.empty((count, masks.size), np.int64)
    for row in bits:
        row[:] = masks & -masks
        masks = masks ^ row
    return bits
