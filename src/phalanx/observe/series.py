"""A number over time in limited memory: its means over steps of ten seconds, of five minutes and of
two hours.

The caller passes the time.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

RESOLUTIONS = ((10.0, 90), (300.0, 288), (7_200.0, 360))
"""(seconds of a step, number of steps kept) of each resolution. The resolutions cover a quarter of
an hour, a day, and thirty days, and take 12 kB for each number.
"""
SeriesPoints = list[list[tuple[float, float]]]
"""The points of a series in each resolution. Another process updates its copy of the series with
them.
"""


class Point(NamedTuple):
    """The mean of a number over the step that begins at `at`."""

    at: float
    mean: float


class _Ring:
    """The means over the latest steps of equal length."""

    def __init__(self, step_s: float, kept: int) -> None:
        self.step_s = step_s
        self._kept = kept
        self._starts, self._means = array("d"), array("d")
        self._count = 0
        """The number of values in the mean of the last step, which has not ended."""

    def add(self, at: float, value: float) -> None:
        begun = at // self.step_s * self.step_s
        if not self._starts or begun > self._starts[-1]:
            self._append(begun, value)
            self._count = 1
            return
        # After the clock was set back, values go into the open step, and no earlier step changes.
        self._count += 1
        self._means[-1] += (value - self._means[-1]) / self._count

    def update(self, points: Sequence[tuple[float, float]]) -> None:
        while points and self._starts and self._starts[-1] >= points[0][0]:
            self._starts.pop()
            self._means.pop()
        for at, mean in points:
            self._append(at, mean)
        self._count = 1

    def move(self, by_s: float) -> None:
        self._starts = array("d", (start + by_s for start in self._starts))

    def _append(self, begun: float, mean: float) -> None:
        self._starts.append(begun)
        self._means.append(mean)
        if len(self._starts) > self._kept:
            del self._starts[0], self._means[0]

    def after(self, start: float) -> list[Point]:
        """Return the points of steps that end after `start`."""
        first = len(self._starts)
        while first and self._starts[first - 1] + self.step_s > start:
            first -= 1
        return list(map(Point, self._starts[first:], self._means[first:]))


class Series:
    """One number over time. Periods without added values have no points."""

    def __init__(self) -> None:
        self._rings = [_Ring(step_s, kept) for step_s, kept in RESOLUTIONS]

    def add(self, at: float, value: float) -> None:
        """Add the number's value at time `at`, in seconds."""
        for ring in self._rings:
            ring.add(at, value)

    def move(self, by_s: float) -> None:
        """Move all points, after the clock was stepped by this many seconds."""
        for ring in self._rings:
            ring.move(by_s)

    def since(self, start: float, now: float) -> list[Point]:
        """Return the points from `start` on. The resolution is the finest one whose points reach
        back to `start`.
        """
        for ring, (step_s, kept) in zip(self._rings, RESOLUTIONS, strict=True):
            if now - start <= step_s * kept:
                return ring.after(start)
        return self._rings[-1].after(start)

    def points_after(self, after: float) -> SeriesPoints:
        """Return the points that may have changed since the time `after`. A copy of this series
        gets them by `update`.
        """
        return [[(point.at, point.mean) for point in ring.after(after)] for ring in self._rings]

    def update(self, points: SeriesPoints) -> None:
        """Add the points that another series returned from `points_after`. They replace all points
        from the first of them on; older points stay.
        """
        for ring, new in zip(self._rings, points, strict=False):
            ring.update(new)
