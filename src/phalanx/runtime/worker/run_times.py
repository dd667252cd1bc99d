"""When a task or call began, and when it ended: so long after that as has really gone by."""

from __future__ import annotations

import time
from typing import NamedTuple


class Began(NamedTuple):
    """The time of day at which it began, and what the clock that never goes back showed."""

    wall: float
    steady: float

    def seconds(self) -> float:
        """How long it has run by now."""
        return time.monotonic() - self.steady

    def ended(self) -> float:
        """The time of day now, unless it was set since: then as if it had not been."""
        return self.wall + time.monotonic() - self.steady


def begins() -> Began:
    """It begins now."""
    return Began(time.time(), time.monotonic())
