"""Cron schedules: five fields in a time zone, and the moments that they mean.

Fields are minute, hour, day of month, month and day of week (0 is Sunday), each `*`, a number, a
range, a list of those, or any of them with `/step`; months and days also by their English names. A
day matches either of the two day fields when both are narrowed, and both when one is `*`, as in
Unix's cron. `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly` and `@every 1h30m` are known too.

Where clocks are set forward, a time that does not exist is passed over. Where they are set back, a
schedule with `*` as hour runs in both of the doubled hours, and one that names its hours only in
the first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from phalanx.batch.arguments import seconds

MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FIELDS = (
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day of month", 1, 31),
    ("month", 1, 12),
    ("day of week", 0, 6),
)
_MONTHS = {
    "jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6,
    "jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11, "dec": 12,
}  # fmt: skip
_DAYS = {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
_PART = re.compile(r"(\*|\?|\w+)(?:-(\w+))?(?:/(\d+))?$", re.ASCII)
_ZONE_PART = re.compile(r"[A-Za-z0-9._+][A-Za-z0-9._+-]{0,13}$", re.ASCII)
HORIZON_YEARS = 9
"""From one 29 February to the next there are up to eight years."""


class Schedule(msgspec.Struct, frozen=True):
    """The moments of a schedule; `every_s` is set for `@every`, and the rest is empty then."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    """True when only one of the day fields is narrowed, so that both must match."""
    any_hour: bool
    every_s: int = 0

    def after(self, moment: float, zone: str = "") -> float | None:
        """The first time after `moment` (both seconds since the epoch); None if there is none."""
        if self.every_s:
            return float(math.floor(moment) + self.every_s)
        tz = zone_of(zone)
        try:
            start = datetime.fromtimestamp(moment, tz).date()
        except (OverflowError, ValueError, OSError):
            return None
        for day in self._days_from(start):
            found = [t for t in self._times_on(day, tz) if t > moment]
            if found:
                return min(found)
        return None

    def _days_from(self, start: date) -> Iterator[date]:
        day, last = start, min(start.year + HORIZON_YEARS, 9998)
        while day.year <= last:
            if day.month not in self.months:
                day = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
                continue
            in_month = day.day in self.days
            in_week = (day.isoweekday() % 7) in self.weekdays
            if (in_month and in_week) if self.any_day else (in_month or in_week):
                yield day
            day += timedelta(days=1)

    def _times_on(self, day: date, tz: tzinfo) -> Iterator[float]:
        for hour in self.hours:
            for minute in self.minutes:
                for fold in (0, 1) if self.any_hour else (0,):
                    local = datetime(
                        day.year, day.month, day.day, hour, minute, tzinfo=tz, fold=fold
                    )
                    moment = local.timestamp()
                    back = datetime.fromtimestamp(moment, tz)
                    if (back.hour, back.minute, back.day) == (hour, minute, day.day):
                        yield moment


def parse_schedule(text: str) -> Schedule:
    """The schedule that `text` means. Raises ValueError with what is wrong and where."""
    text = text.strip()
    if not text:
        raise ValueError("a schedule is five fields such as '0 3 * * *', not empty")
    if "TZ" in text:
        raise ValueError("the time zone stands in the field timeZone, not in the schedule")
    if text.startswith("@every "):
        length = seconds(text.removeprefix("@every ").strip())
        if length is None or length < 1:
            raise ValueError(f"@every is followed by a time from 1s on like 1h30m: {text!r}")
        none: frozenset[int] = frozenset()
        return Schedule((), (), none, none, none, True, True, int(length))
    if text.startswith("@") and text not in MACROS:
        raise ValueError(f"{text!r} is none of {', '.join(MACROS)}, @every")
    fields = MACROS.get(text, text).split()
    if len(fields) != 5:
        raise ValueError(f"a schedule has five fields such as '0 3 * * *', not {len(fields)}")
    minute, hour, day, month, weekday = (
        _field(written, *bounds) for written, bounds in zip(fields, _FIELDS, strict=True)
    )
    free = [written in ("*", "?", "*/1") for written in fields]
    return Schedule(
        minutes=tuple(sorted(minute)),
        hours=tuple(sorted(hour)),
        days=frozenset(day),
        months=frozenset(month),
        weekdays=frozenset(weekday),
        any_day=free[2] or free[4],
        any_hour=fields[1].startswith("*"),
    )


def _field(written: str, name: str, low: int, high: int) -> set[int]:
    values: set[int] = set()
    for part in written.split(","):
        match = _PART.match(part)
        if match is None:
            raise ValueError(
                f"{name}: {part!r} is no number, range, '*' or one of those with /step"
            )
        first, last, step = match.groups()
        if first in ("*", "?"):
            if last is not None:
                raise ValueError(f"{name}: {part!r}: '*' is every value already")
            begin, end = low, high
        else:
            begin = _value(first, name, low, high)
            # a number with a step runs to the end: 5/15 is 5-59/15
            end = _value(last, name, low, high) if last else high if step else begin
        if begin > end:
            raise ValueError(f"{name}: {part!r} runs backwards")
        width = int(step) if step else 1
        if width < 1:
            raise ValueError(f"{name}: {part!r}: a step is 1 or more")
        values |= set(range(begin, end + 1, width))
    return values


def _value(word: str, name: str, low: int, high: int) -> int:
    names = _MONTHS if name == "month" else _DAYS if name == "day of week" else {}
    if word.lower() in names:
        return names[word.lower()]
    value = int(word) if word.isdecimal() and len(word) < 5 else None
    if value is None or not low <= value <= high:
        also = "; Sunday is 0" if name == "day of week" and word == "7" else ""
        raise ValueError(f"{name}: {word!r} is not from {low} to {high}{also}")
    return value


def zone_of(name: str) -> tzinfo:
    """The time zone of that name, UTC for "". Raises ValueError for a name that is none."""
    if not name:
        return timezone.utc
    parts = name.split("/")
    formed = all(_ZONE_PART.match(part) and part not in (".", "..") for part in parts)
    if not formed or name.lower() == "local":
        raise ValueError(f"{name!r} is no time zone; write one like Europe/Berlin or UTC")
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError, ValueError) as e:
        if name.upper() in ("UTC", "ETC/UTC"):
            return timezone.utc  # also where a machine has no data on zones
        raise ValueError(f"{name!r} is no time zone; write one like Europe/Berlin or UTC") from e
