"""Options that take a duration, such as `90s`, `15m`, `2h30m` or `1-12:00`.

All options read the same forms (`manifests.times`). Only the unit of a number without a unit
differs. For limits of jobs and reservations it is minutes, as in Slurm's `--time`. For the options
of this module it is seconds, as in Slurm's `KillWait` and `squeue --iterate`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from phalanx.manifests.times import read_length
from phalanx.model.jobs.timing import LONGEST_S

METAVAR = "DURATION"
FORMS = "90s, 15m, 2h30m, 1-12:00 (days-hours:minutes) or 90 (seconds)"
_ALONE = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


def seconds_at_least(least_s: float) -> Callable[[str | float], float]:
    """Return a parser for an option's value, in which a number without a unit counts seconds. The
    parser returns seconds, and raises ValueError for a value below `least_s` or above `LONGEST_S`.
    """

    def duration(given: str | float) -> float:
        found = read_seconds(given)
        if not least_s <= found <= LONGEST_S:
            raise ValueError(
                f"{given} is not allowed: give at least {least_s:g} s and at most {LONGEST_S:g} s"
            )
        return found

    return duration


def read_seconds(given: str | float) -> float:
    """Return the duration `given` in seconds.

    A number without a unit counts seconds. Raises ValueError, which lists the forms.

    >>> read_seconds("90"), read_seconds("90s"), read_seconds("1.5m"), read_seconds("1-12:00")
    (90.0, 90.0, 90.0, 129600.0)
    """
    text = str(given).strip()
    if _ALONE.fullmatch(text):
        found = float(text)
        if math.isfinite(found):
            return found
    elif text[:1].isdigit():
        try:
            return 0.0 if text in ("0s", "0m", "0h", "0d") else read_length(text)
        except ValueError as error:
            if "at most" in str(error):  # it is a duration, and a too long one
                raise
    raise ValueError(f"a duration is like {FORMS}, not {given!r}")
