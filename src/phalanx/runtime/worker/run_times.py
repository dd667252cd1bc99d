"""The times at which a task or call begins and ends. The time between them is measured exactly."""

from __future__ import annotations

import time
from typing import NamedTuple


class Began(NamedTuple):
    """The wall-clock time at which a run began, and the reading then of the clock that never goes
    backwards.
    """

    wall: float
    steady: float

    def seconds(self) -> float:
        """Return the seconds that the run has taken so far."""
        return time.monotonic() - self.steady

    def ended(self) -> float:
        """Return the current wall-clock time, as if the clock had not been set since the run
        began.
        """
        return self.wall + time.monotonic() - self.steady


def begins() -> Began:
    """Return the times of a run that begins now."""
    return Began(time.time(), time.monotonic())
