"""Times of day as text."""

from __future__ import annotations

import time


def clock(at: float | None, unknown: str = "Unknown") -> str:
    """A time of day in the local zone, to the second, as Slurm writes it too.

    `at` is in seconds since the epoch; None gives `unknown`.
    """
    return unknown if at is None else time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at))
