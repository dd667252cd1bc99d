"""What a number was over time, in bounded memory: by the second, by the minute, by the quarter of
an hour. Pure: whoever adds says when."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

RESOLUTIONS = ((1.0, 900), (60.0, 1_440), (900.0, 2_880))
"""(seconds of a step, steps kept): a quarter of an hour, a day, and thirty days."""


class Point(NamedTuple):
    """The mean of a number from `at` on, for one step."""

    at: float
    mean: float


class _Ring:
    """The means of the last steps of one length."""

    def __init__(self, step_s: float, kept: int) -> None:
        self.step_s = step_s
        self._points: deque[Point] = deque(maxlen=kept)
        self._at: float | None = None
        self._sum = 0.0
        self._count = 0

    def add(self, at: float, value: float) -> None:
        begun = at // self.step_s * self.step_s
        if self._at is None or begun > self._at:
            self._close()
            self._at, self._sum, self._count = begun, 0.0, 0
        # A clock that is set back changes the step that is open, and none before it.
        self._sum += value
        self._count += 1

    def _close(self) -> None:
        if self._at is not None and self._count:
            self._points.append(Point(self._at, self._sum / self._count))

    def points(self) -> list[Point]:
        found = list(self._points)
        if self._at is not None and self._count:
            found.append(Point(self._at, self._sum / self._count))
        return found


class Series:
    """One number. Where nobody added anything for a while there are no points."""

    def __init__(self) -> None:
        self._rings = [_Ring(step_s, kept) for step_s, kept in RESOLUTIONS]

    def add(self, at: float, value: float) -> None:
        """The number was this at this time, in seconds."""
        for ring in self._rings:
            ring.add(at, value)

    def since(self, start: float, now: float) -> list[Point]:
        """The points from `start` on, of the finest resolution that reaches back so far."""
        for ring, (step_s, kept) in zip(self._rings, RESOLUTIONS, strict=True):
            if now - start <= step_s * kept:
                return [point for point in ring.points() if point.at + step_s > start]
        return self._rings[-1].points()
