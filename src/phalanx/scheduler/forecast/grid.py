"""The times at which a plan may change. They are one second apart at first, and further and further
apart later.

Slurm's backfill groups the ends of running work in steps that double, too. Here the times are
multiples of powers of two since the epoch, and a step is at most 1/32 of the time from now. So a
grid that is made later still has all times of an older grid that lie ahead, and a time that was
rounded up once is not rounded up again.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable

import numpy as np

from phalanx.scheduler.cycle.amounts import Vector
from phalanx.scheduler.cycle.rows import Indexes

STEPS = 32
"""The least number of steps of one length before the length doubles."""
SAME_S = 64
"""The time since the epoch is divided into periods of this length in seconds. All grids that are
made in one period have the same times after that period.
"""
HORIZON_S = 2.0**22
"""Seconds that a plan looks ahead: 48 days. Work that ends later counts as endless."""


class Grid:
    """The times of a plan, in seconds. The first time is `now`."""

    def __init__(self, now: float, exact: Iterable[float] = ()) -> None:
        """`exact`: times that the grid must include, unless they are beyond its end."""
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
        """Return the time in seconds at an index."""
        return self._listed[index]

    def rounded_up(self, time: float) -> int:
        """Return the index of the first time at or after `time`, or the grid's length if there is
        none.
        """
        return bisect_left(self._listed, time)

    def rounded_down(self, time: float) -> int:
        """Return the index of the last time at or before `time`, or 0 if there is none."""
        return max(bisect_right(self._listed, time) - 1, 0)

    def ends(self, length_s: float) -> Indexes:
        """Return, for each time of the grid, the index of the time by which work of this length
        that starts then has ended.
        """
        return np.searchsorted(self.times, self.times + length_s, side="left")
