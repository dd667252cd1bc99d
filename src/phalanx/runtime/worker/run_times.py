"""Begin and end of a task or call, by a clock that measures the time between them exactly."""

from __future__ import annotations

import time
from typing import NamedTuple


class Began(NamedTuple):
    """The wall-clock time of a beginning, and the reading of the clock that never goes back."""

    wall: float
    steady: float

    def seconds(self) -> float:
        """Return how long it has run by now."""
        return time.monotonic() - self.steady

    def ended(self) -> float:
        """Return the wall-clock time now, as if the clock had not been set since the beginning."""
        return self.wall + time.monotonic() - self.steady


def begins() -> Began:
    """Return a beginning at this moment."""
    return Began(time.time(), time.monotonic())
