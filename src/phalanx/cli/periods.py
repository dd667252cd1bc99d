"""Reads past moments as users write them: `7d`, `today`, `now-2days`, `2026-11-01`."""

from __future__ import annotations

import time

from phalanx.manifests.times import read_length, read_moment

PAST = "7d (7 days ago), today, now-2days, 2026-11-01 or 2026-11-01T18:00"


def past_moment(given: str, now: float) -> float:
    """Return the moment `given` in seconds since the epoch. Raises ValueError, which lists the
    forms.
    """
    text = given.strip().lower()
    if text in ("today", "midnight"):
        return time.mktime((*time.localtime(now)[:3], 0, 0, 0, 0, 0, -1))
    try:
        if text.startswith("now-"):
            return now - _amount(text.removeprefix("now-"))
        if text[-1:].isalpha() and text[:1].isdigit():
            return now - read_length(text)
        return read_moment(given).since(now)
    except ValueError:
        raise ValueError(f"a time is like {PAST}, not {given!r}") from None


def _amount(text: str) -> float:
    """Return the seconds of a duration in Slurm's form: `2days`, `3hours` or `90` (seconds). Raises
    ValueError for other forms.
    """
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = {"": "s"}.get(text[len(digits) :], text[len(digits) :][:1])
    weeks = 7 if unit == "w" else 1
    return weeks * read_length(digits + ("d" if unit == "w" else unit))
