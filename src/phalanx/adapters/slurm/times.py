"""Reads moments and durations in the forms of Slurm's commands."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

_WORDS = {
    "midnight": (0, 0), "elevenses": (11, 0), "noon": (12, 0), "fika": (15, 0), "teatime": (16, 0),
}  # fmt: skip
_CLOCK = r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2}))?"
_DAYS = (
    r"(?P<year>[0-9]{4})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})",
    r"(?P<month>[0-9]{1,2})/(?P<day>[0-9]{1,2})(?:/(?P<short>[0-9]{2}))?",
    r"(?P<month>[0-9]{1,2})\.(?P<day>[0-9]{1,2})(?:\.(?P<short>[0-9]{2}))?",
    r"(?P<month>[0-9]{2})(?P<day>[0-9]{2})(?P<short>[0-9]{2})?",
)
_FORMS = (
    re.compile(rf"{_CLOCK}\s*(?P<half>am|pm)?", re.ASCII),
    *(re.compile(rf"{one}(?:[t-]{_CLOCK})?", re.ASCII) for one in _DAYS),
)
_OFFSET = re.compile(r"now(?:\s*([+-])\s*([0-9]{1,9})\s*([a-z]*))?", re.ASCII)
_UNITS_S = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
_LENGTH = re.compile(r"(?:([0-9]{1,9})-)?([0-9]{1,9})(?::([0-9]{1,9}))?(?::([0-9]{1,9}))?")
_NONE = ("unlimited", "infinite", "-1")
_HALF_DAY = 12
_CENTURY = 2_000
FORMS = "now+2hours, 18:00, 6:00PM, noon, tomorrow, 2027-01-31T18:00, 01/31/27, 013127 or 12/25"


def slurm_moment(written: str, now: float, is_past: bool = False) -> float:
    """Return a moment in seconds since the epoch. Times are in the local zone. A time without a day
    means the next such time, and a day without a year the next such day. With `is_past`, they mean
    that time today, and that day of this year, as in sacct. Raises ValueError, which lists the
    forms.
    """
    text = written.strip().lower()
    here = datetime.fromtimestamp(now).replace(microsecond=0)
    try:
        found = _offset(text, now) or _named(text, here, is_past) or _dated(text, here, is_past)
    except (ValueError, OverflowError):
        found = None
    if found is None:
        raise ValueError(f"a moment is like {FORMS}, not {written!r}")
    return found


def _offset(text: str, now: float) -> float | None:
    match = _OFFSET.fullmatch(text)
    if match is None:
        return None
    sign, number, unit = match.groups()
    names = [name for name in _UNITS_S if name.startswith((unit or "second").removesuffix("s"))]
    if not names:
        return None
    return now + (-1 if sign == "-" else 1) * int(number or 0) * _UNITS_S[names[0]]


def _named(text: str, here: datetime, is_past: bool) -> float | None:
    day = here.replace(hour=0, minute=0, second=0)
    if text in ("today", "tomorrow"):
        return (day + timedelta(days=text == "tomorrow")).timestamp()
    if text not in _WORDS:
        return None
    hour, minute = _WORDS[text]
    return _next(day.replace(hour=hour, minute=minute), here, is_past)


def _dated(text: str, here: datetime, is_past: bool) -> float | None:
    match = next((found for form in _FORMS if (found := form.fullmatch(text))), None)
    if match is None:
        return None
    parts = match.groupdict()
    hour, minute, second = (int(parts[name] or 0) for name in ("hour", "minute", "second"))
    if parts.get("half"):
        if not 1 <= hour <= _HALF_DAY:
            return None
        hour = hour % _HALF_DAY + (_HALF_DAY if parts["half"] == "pm" else 0)
    at = here.replace(hour=hour, minute=minute, second=second)
    if "month" not in parts:
        return _next(at, here, is_past)
    short, year = parts.get("short"), parts.get("year")
    number = int(year) if year else _CENTURY + int(short) if short else here.year
    at = at.replace(year=number, month=int(parts["month"]), day=int(parts["day"]))
    if not (year or short or is_past) and at < here:
        at = at.replace(year=number + 1)
    return at.timestamp()


def _next(at: datetime, here: datetime, is_past: bool) -> float:
    return (at if is_past or at > here else at + timedelta(days=1)).timestamp()


def slurm_length(written: str) -> float | None:
    """Return a duration in seconds, from `minutes`, `minutes:seconds`, `hours:minutes:seconds`,
    `days-hours` and so on. Parts may be of any size (`0:300`). Returns None for no limit. Raises
    ValueError.
    """
    text = written.strip().lower()
    if text in _NONE:
        return None
    match = _LENGTH.fullmatch(text)
    if match is None:
        raise ValueError(
            f"a length of time is minutes, 1:30:00 (hours) or 1-12:00 (days), not {written!r}"
        )
    days, *given = match.groups()
    parts = [int(part) for part in given if part is not None]
    if days is not None:
        hours, minutes, seconds = [*parts, 0, 0][:3]
    elif len(parts) == len(given):
        hours, minutes, seconds = parts
    else:
        hours, (minutes, seconds) = 0, [*parts, 0][:2]
    whole = int(days or 0) * 86_400 + hours * 3_600 + minutes * 60 + seconds
    return float(whole) or None
