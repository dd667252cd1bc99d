"""The time as the shell gives it to a head."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Two clocks: one for waiting, and the time of day for records that people read."""

    def now(self) -> float:
        """Seconds of the own time of the process (see `model.own_time`), which never goes back."""
        ...

    def wall(self) -> float:
        """Seconds since the epoch."""
        ...
