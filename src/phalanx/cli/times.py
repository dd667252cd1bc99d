"""Moments as text."""

from __future__ import annotations

import time


def clock(at: float | None, unknown: str = "Unknown") -> str:
    """Return a moment in the local time zone, to the second, in Slurm's format.

    `at` is in seconds since the epoch; None gives `unknown`.
    """
    return unknown if at is None else time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at))
