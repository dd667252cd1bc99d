"""Cron schedules: five fields in a time zone, and the times that they select.

The fields are minute, hour, day of month, month and day of week (0 is Sunday). Each field is `*`, a
number, a range, a list of numbers and ranges, or any of these with `/step`. Months and days may be
written by their English names. If neither day field is `*`, a day has to match one of the two
fields; otherwise it has to match both. `?` means `*`. There are also `@hourly`, `@daily`,
`@weekly`, `@monthly`, `@yearly` and `@every 1h30m`.

Kubernetes and Volcano use this form. The library that finds the times, cronsim, reads the form of
Debian's cron, which differs in details; therefore it gets plain lists of numbers.

When clocks go forward, a time that does not exist is left out. When clocks go back, one hour comes
twice: a schedule whose hour field begins with `*` runs in both of these hours, and a schedule that
names its hours runs only in the first.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from cronsim import CronSim, CronSimError
from cronsim.cronsim import SYMBOLIC_DAYS, SYMBOLIC_MONTHS

from phalanx.scheduler.cycle.arguments import seconds

MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FIELDS: tuple[tuple[str, int, int, dict[str, int]], ...] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of month", 1, 31, {}),
    ("month", 1, 12, {name.lower(): at for at, name in enumerate(SYMBOLIC_MONTHS, 1)}),
    ("day of week", 0, 6, {name.lower(): at for at, name in enumerate(SYMBOLIC_DAYS)}),
)
_CHANGE_S = 3 * 3600.0
"""The largest change of a zone's clocks in seconds, except where the date line moved."""
_NONE = timedelta()
_PART = re.compile(r"(\*|\w+)(?:-(\w+))?(?:/(\d+))?$", re.ASCII)
_ZONE_PART = re.compile(r"[A-Za-z0-9._+][A-Za-z0-9._+-]{0,13}$", re.ASCII)


class Schedule(msgspec.Struct, frozen=True):
    """The times of a schedule: `fields` in the form for cronsim, or an interval in whole
    seconds.
    """

    fields: str = ""
    every_s: int = 0

    def after(self, moment: float, zone: str = "") -> float | None:
        """Return the first time of the schedule after `moment` (both in seconds since the epoch);
        None if there is no further time.
        """
        if self.every_s:
            return float(math.floor(moment) + self.every_s)
        try:
            return self._after(moment, zone_of(zone))
        except (CronSimError, OverflowError, ValueError, OSError):
            return None  # no month has that day, or the date is later than Python's last one

    def _after(self, moment: float, tz: tzinfo) -> float | None:
        """Return the schedule's next time in a zone whose clocks show some times twice and skip
        others.

        cronsim computes times of day without a zone. Each of them is then converted to the moments
        at which the zone's clocks show it.
        """
        found: float | None = None
        is_any_hour = self.fields.split()[1].startswith("*")
        begin = datetime.fromtimestamp(moment, tz).replace(tzinfo=None, fold=0)
        for shown in CronSim(self.fields, begin - _doubled(moment, tz)):
            moments = _moments(shown, tz)
            if not moments:
                continue
            if found is not None and moments[0] >= found:
                break
            for one in moments if is_any_hour else moments[:1]:
                if one > moment and (found is None or one < found):
                    found = one
        return found


def _doubled(moment: float, tz: tzinfo) -> timedelta:
    """Return the length of the interval around a moment that the zone's clocks show twice. It is
    zero if the clocks show no time near the moment twice.
    """
    if tz is UTC:
        return _NONE
    times = (max(moment - _CHANGE_S, 0.0), moment, moment + _CHANGE_S)
    offsets = [datetime.fromtimestamp(time, tz).utcoffset() or _NONE for time in times]
    return max(offsets[0] - offsets[1], offsets[1] - offsets[2], _NONE)


def _moments(shown: datetime, tz: tzinfo) -> list[float]:
    """Return the moments, at most two, at which the zone's clocks show this time."""
    found: list[float] = []
    for fold in (0, 1):
        one = shown.replace(tzinfo=tz, fold=fold).timestamp()
        is_shown = datetime.fromtimestamp(one, tz).replace(tzinfo=None, fold=0) == shown
        if is_shown and one not in found:
            found.append(one)
    return found


def parse_schedule(text: str) -> Schedule:
    """Return the schedule in a text. Raises ValueError that names the wrong field and its fault."""
    text = text.strip()
    if not text:
        raise ValueError("a schedule is five fields such as '0 3 * * *', not empty")
    if "TZ" in text:
        raise ValueError("the time zone belongs in the field timeZone, not in the schedule")
    if text.startswith("@every "):
        length = seconds(text.removeprefix("@every ").strip())
        if length is None or length < 1:
            raise ValueError(
                f"@every must be followed by a time of 1s or more like 1h30m: {text!r}"
            )
        return Schedule(every_s=int(length))
    if text.startswith("@") and text not in MACROS:
        raise ValueError(f"{text!r} is not known; known: {', '.join(MACROS)}, @every")
    fields = MACROS.get(text, text).replace("?", "*").lower().split()
    if len(fields) != len(_FIELDS):
        raise ValueError(f"a schedule must have five fields such as '0 3 * * *', not {len(fields)}")
    return Schedule(" ".join(_field(field, *_FIELDS[at]) for at, field in enumerate(fields)))


def _field(written: str, name: str, low: int, high: int, names: dict[str, int]) -> str:
    """Return a field in the form for cronsim: a list of numbers. A field `*`, and an hour field
    that begins with `*`, stay as written where that has a special meaning.
    """
    numbers: set[int] = set()
    is_free = False
    for part in written.split(","):
        match = _PART.match(part)
        if match is None:
            raise ValueError(
                f"{name}: {part!r} is not a number, range, '*' or one of those with /step"
            )
        first, last, step = match.groups()
        width = int(step or 1)
        if width < 1:
            raise ValueError(f"{name}: {part!r}: a step must be 1 or more")
        if first == "*":
            if last is not None:
                raise ValueError(f"{name}: {part!r}: '*' already means every value")
            begin, end = low, high
            is_free |= width == 1
        else:
            begin = _value(first, name, low, high, names)
            # A number with a step means a range to the end: 5/15 is 5-59/15.
            end = _value(last, name, low, high, names) if last else high if step else begin
        if begin > end:
            raise ValueError(f"{name}: {part!r} runs backwards")
        numbers |= set(range(begin, end + 1, width))
    if name == "hour" and written.startswith("*"):
        return written  # the schedule runs in both hours when the clocks show an hour twice
    if is_free and name != "minute":
        return "*"
    return ",".join(map(str, sorted(numbers)))


def _value(word: str, name: str, low: int, high: int, names: dict[str, int]) -> int:
    if word in names:
        return names[word]
    value = int(word) if word.isdecimal() and len(word) < 5 else None
    if value is None or not low <= value <= high:
        also = "; Sunday is 0" if name == "day of week" and word == "7" else ""
        raise ValueError(f"{name}: {word!r} is not from {low} to {high}{also}")
    return value


def moment_text(moment: float, zone: str = "") -> str:
    """Return a time (in seconds since the epoch) as text, as a clock of that zone shows it."""
    return datetime.fromtimestamp(moment, zone_of(zone)).strftime("%Y-%m-%d %H:%M:%S %Z")


def zone_of(name: str) -> tzinfo:
    """Return the time zone of that name, UTC for "". Raises ValueError for an unknown name."""
    if not name:
        return UTC
    parts = name.split("/")
    formed = all(_ZONE_PART.match(part) and part not in (".", "..") for part in parts)
    if not formed or name.lower() == "local":
        raise ValueError(f"{name!r} is not a time zone; write one like Europe/Berlin or UTC")
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError, ValueError) as e:
        if name.upper() in ("UTC", "ETC/UTC"):
            return UTC  # UTC must work even on a machine without data on time zones
        raise ValueError(f"{name!r} is not a time zone; write one like Europe/Berlin or UTC") from e
