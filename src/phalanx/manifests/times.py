"""Durations and moments, in the forms of Slurm and of manifests.

A duration is `90m`, `2h30m` or `1d12h`, or has a form of sbatch(1): minutes, minutes:seconds,
hours:minutes:seconds, days-hours, days-hours:minutes and days-hours:minutes:seconds.

A moment is `now+1h`, or a date with or without a time (`2027-01-31T18:00`). The time is in the
local zone unless the text names a zone (`Z`, `+01:00`). If the present time is known when a moment
is read, the moment may also be `18:00`, which means the next such time.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from phalanx.model.jobs.timing import LATEST_S, LONGEST_S, Moment

LENGTHS = "2h30m, 90m, 1:30:00 (hours), 90 (minutes), 1-12:00 (days-hours:minutes)"
MOMENTS = "now+1h, 2027-01-31T18:00 or 2027-01-31T18:00Z"
MAX_CHARS = 40
_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_WORDS = {
    **dict.fromkeys(("second", "seconds", "sec", "secs"), "s"),
    **dict.fromkeys(("minute", "minutes", "min", "mins"), "m"),
    **dict.fromkeys(("hour", "hours"), "h"),
    **dict.fromkeys(("day", "days"), "d"),
    **dict.fromkeys(("week", "weeks"), "w"),
}
_NUMBER = r"[0-9]{1,40}(?:\.[0-9]{1,6})?"
_IN_UNITS = re.compile(rf"(?:{_NUMBER}[smhd])+", re.ASCII)
_PART = re.compile(rf"({_NUMBER})([smhd])", re.ASCII)
_SLURM = re.compile(
    r"(?:([0-9]{1,40})-)?([0-9]{1,40})(?::([0-9]{1,40}))?(?::([0-9]{1,40}))?", re.ASCII
)
_OFFSET = re.compile(rf"now(?:\s*\+\s*({_NUMBER})\s*([a-z]*))?", re.ASCII)
_CLOCK = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?", re.ASCII)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9:.]{5,15}(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?")


def read_length(written: str) -> float:
    """Return the seconds of a duration, which must be more than 0 and at most LONGEST_S. Raises
    ValueError that says what is allowed.
    """
    text = written.strip()
    length = _length(text) if len(text) <= MAX_CHARS else None
    if length is None:
        raise ValueError(f"a length of time is like {LENGTHS}, not {_shown(written)}")
    if not 0 < length <= LONGEST_S:
        raise ValueError(
            f"a length of time must be more than 0 and at most {LONGEST_S:g} s: {written}"
        )
    return length


def read_limit(written: str) -> float:
    """Return the seconds of a time limit; 0 for `none`, which means no limit. Raises ValueError."""
    return 0.0 if written.strip().lower() == "none" else read_length(written)


def _length(text: str) -> float | None:
    if _IN_UNITS.fullmatch(text):
        return sum(float(number) * _UNITS_S[unit] for number, unit in _PART.findall(text))
    found = _SLURM.fullmatch(text)
    if found is None:
        return None
    days, *given = found.groups()
    parts = [int(part) for part in given if part is not None]
    if days is not None:
        parts = [int(days), *parts, 0, 0][:4]  # after days come hours
    elif len(parts) < 3:
        parts = [*parts, 0][:2]  # minutes and seconds
    bounds = (24, 60, 60)[-(len(parts) - 1) :]
    if any(part >= bound for part, bound in zip(parts[1:], bounds, strict=True)):
        return None
    units = (86_400, 3600, 60, 1)[-len(parts) :]
    return float(sum(part * unit for part, unit in zip(parts, units, strict=True)))


def read_moment(written: str, now: float | None = None) -> Moment:
    """Return the moment in a text.

    `now` is the present time in seconds since the epoch; without it, a time such as 18:00 is
    refused, because it is another moment each day. Raises ValueError.
    """
    text = written.strip()
    found = _moment(text, now) if len(text) <= MAX_CHARS else None
    if found is None:
        clock = " or 18:00" if now is not None else ""
        raise ValueError(f"a moment is like {MOMENTS}{clock}, not {_shown(written)}")
    return found


def _moment(text: str, now: float | None) -> Moment | None:
    offset = _OFFSET.fullmatch(text.lower())
    if offset is not None:
        number, unit = offset.groups()
        # `now+60` means 60 seconds, as in sbatch(1)
        short = _WORDS.get(unit, unit) if unit else "s"
        after_s = float(number or 0) * _UNITS_S.get(short, float("nan"))
        return _after(after_s, text) if after_s >= 0 else None
    if text.lower().startswith("now+"):
        length = _length(text[4:].strip())
        return None if length is None else _after(length, text)
    clock = _CLOCK.fullmatch(text)
    if clock is not None:
        return None if now is None else _next(clock, now)
    if not _DATE.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text)
        at = moment.timestamp()  # in the local zone if it names none
    except (ValueError, OverflowError, OSError):
        return None
    return Moment(at=at) if 0 <= at <= LATEST_S else None


def _after(after_s: float, text: str) -> Moment:
    if after_s > LONGEST_S:
        raise ValueError(f"a moment is at most {LONGEST_S:g} s after now: {text}")
    return Moment(after_s=after_s)


def _next(clock: re.Match[str], now: float) -> Moment | None:
    """Return the next moment at which a local clock shows the time `clock`; None for a time that no
    clock shows.
    """
    hour, minute, second = (int(part or 0) for part in clock.groups())
    here = datetime.fromtimestamp(now)
    try:
        moment = here.replace(hour=hour, minute=minute, second=second, microsecond=0)
    except ValueError:
        return None
    if moment <= here:
        moment += timedelta(days=1)
    return Moment(at=moment.timestamp())


def written_moment(moment: Moment) -> str:
    """Return a moment as text for `read_moment`. Raises ValueError for an invalid moment."""
    if moment.at is None:
        return f"now+{moment.after_s or 0:f}".rstrip("0").rstrip(".")
    if not 0 <= moment.at <= LATEST_S:
        raise ValueError(f"a moment must be within the years 1970 to 9999, not {moment.at:g} s")
    return datetime.fromtimestamp(moment.at, UTC).isoformat().replace("+00:00", "Z")


def _shown(written: str) -> str:
    return repr(written if len(written) <= MAX_CHARS else written[:MAX_CHARS] + "...")
