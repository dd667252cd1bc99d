"""Moments as listings show them, and moments and durations in Slurm's form."""

from __future__ import annotations

import time

NEVER = "-"


def moment(at: float | None, unknown: str = NEVER) -> str:
    """Return a moment as listings show it: in the local time zone, to the second.

    `at` is in seconds since the epoch; None, and a number that is no time, give `unknown`. Options
    that take a moment read this form.
    """
    return _written(at, "%Y-%m-%d %H:%M:%S", unknown)


def clock(at: float | None, unknown: str = "Unknown") -> str:
    """Return a moment in the local time zone, to the second, in Slurm's format.

    `at` is in seconds since the epoch; None, and a number that is no time, give `unknown`.
    """
    return _written(at, "%Y-%m-%dT%H:%M:%S", unknown)


def _written(at: float | None, form: str, unknown: str) -> str:
    if at is None:
        return unknown
    try:
        return time.strftime(form, time.localtime(at))
    except (OverflowError, ValueError, OSError):
        return unknown


def length(seconds: float) -> str:
    """Return a duration as [D-]HH:MM:SS."""
    days, left = divmod(int(seconds), 86_400)
    text = f"{left // 3_600:02d}:{left // 60 % 60:02d}:{left % 60:02d}"
    return f"{days}-{text}" if days else text
