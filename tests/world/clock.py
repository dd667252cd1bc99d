"""The clock of a world."""

from __future__ import annotations


class ManualClock:
    """A clock that stands still until the test changes its time."""

    def __init__(self, time_s: float = 100.0, ahead_s: float = 0.0) -> None:
        self.time_s = time_s
        """Seconds of the clock that never goes back."""
        self.ahead_s = ahead_s
        """Seconds by which the wall-clock time is ahead of it."""

    def now(self) -> float:
        return self.time_s

    __call__ = monotonic = now

    def wall(self) -> float:
        return self.time_s + self.ahead_s
