"""The times at which a plan may change: every second soon, and ever fewer later on.

Slurm's backfill groups ends of running work in steps that double, too. Here steps are multiples of
a power of two since the epoch, at most 1/32 of the time that lies between. So the times of a later
grid have all those of an earlier one in them: what was rounded up once is never rounded up further.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable

import numpy as np

from phalanx.scheduler.cycle.amounts import Vector
from phalanx.scheduler.cycle.rows import Indexes

STEPS = 32
"""So many steps, or more, lie between now and any time at which the step has doubled."""
SAME_S = 64
"""Grids made in the same so many seconds since the epoch have the same times from then on."""
HORIZON_S = 2.0**22
"""A plan looks ahead so far: 48 days. What ends later never ends, for a plan."""


class Grid:
    """Times in seconds, `now` the first of them."""

    def __init__(self, now: float, exact: Iterable[float] = ()) -> None:
        """`exact`: times that are to be in it, too, as far as it reaches."""
        pieces = [np.array([now])]
        changes = (math.floor(now / SAME_S) + 1.0) * SAME_S
        step, begin = 1.0, math.floor(now) + 1.0
        while begin - changes < HORIZON_S:
            count = math.ceil((changes + 2.0 * STEPS * step - begin) / step)
            pieces.append(begin + step * np.arange(max(count, 0)))
            step *= 2
            begin = math.ceil((begin + step / 2 * max(count, 0)) / step) * step
        self.now = now
        self.times: Vector = np.concatenate(pieces)
        more = [time for time in exact if now < time < self.times[-1]]
        if more:
            self.times = np.unique(np.concatenate((self.times, more)))
        self._listed: list[float] = self.times.tolist()

    def __len__(self) -> int:
        return len(self._listed)

    def at(self, index: int) -> float:
        """The time in seconds at an index."""
        return self._listed[index]

    def rounded_up(self, time: float) -> int:
        """The index of the first time that is no earlier; the length of the grid for none."""
        return bisect_left(self._listed, time)

    def rounded_down(self, time: float) -> int:
        """The index of the last time that is no later; 0 for what is before all of them."""
        return max(bisect_right(self._listed, time) - 1, 0)

    def ends(self, length_s: float) -> Indexes:
        """For work that begins at each of the times: the index at which it has ended."""
        return np.searchsorted(self.times, self.times + length_s, side="left")
