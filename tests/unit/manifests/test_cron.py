"""The times at which a cron schedule is due. They are compared with the library that Kubernetes
uses and with a slow evaluation of the fields, also around changes of the clock (summer time).
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs
from tests.effort import examples

from phalanx.manifests.cron import parse_schedule


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def following(schedule: str, after: str, count: int, zone: str = "") -> list[str]:
    moment: float | None = at(after)
    found = []
    for _ in range(count):
        assert moment is not None
        moment = parse_schedule(schedule).after(moment, zone)
        found.append(
            "never"
            if moment is None
            else datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M")
        )
    return found


REFERENCE = Path(__file__).parent / "tables" / "cron_times.txt"


@pytest.mark.parametrize(
    "line", [line for line in REFERENCE.read_text().splitlines() if not line.startswith("#")]
)
def test_the_next_times_are_those_of_kubernetes(line) -> None:
    zone, after, schedule, times = line.split(" | ")
    if times == "refused":
        with pytest.raises(ValueError):
            parse_schedule(schedule)
        return
    moment: float | None = at(after)
    for expected in times.split():
        assert moment is not None
        moment = parse_schedule(schedule).after(moment, zone)
        assert moment == (None if expected == "never" else at(expected))


@pytest.mark.parametrize(
    ("schedule", "times"),
    [
        ("*/20 * * * *", ["2026-11-21 10:20", "2026-11-21 10:40", "2026-11-21 11:00"]),
        ("5/25 10 * * *", ["2026-11-21 10:05", "2026-11-21 10:30", "2026-11-21 10:55"]),
        ("0 0 1 * *", ["2026-12-01 00:00", "2027-01-01 00:00"]),
        ("0 12 * * mon-wed", ["2026-11-23 12:00", "2026-11-24 12:00", "2026-11-25 12:00"]),
        ("0 0 29 feb *", ["2028-02-29 00:00", "2032-02-29 00:00"]),
        ("0 0 13 * fri", ["2026-11-27 00:00", "2026-12-04 00:00", "2026-12-11 00:00"]),
        ("0 0 */2 * mon", ["2026-11-23 00:00", "2026-11-25 00:00"]),
        ("@daily", ["2026-11-22 00:00"]),
        ("@weekly", ["2026-11-22 00:00", "2026-11-29 00:00"]),
        ("@every 90m", ["2026-11-21 11:30", "2026-11-21 13:00"]),
        ("0 0 30 2 *", ["never"]),
        ("30,0 8-9 * * *", ["2026-11-22 08:00", "2026-11-22 08:30", "2026-11-22 09:00"]),
    ],
)
def test_the_next_times(schedule, times) -> None:
    assert following(schedule, "2026-11-21 10:00", len(times)) == times


@pytest.mark.parametrize(
    ("schedule", "after", "times"),
    [
        # clocks in Berlin go forward on 2026-03-29 at 01:00 UTC and back on 2026-10-25 at 01:00
        ("30 2 * * *", "2026-03-28 00:00", ["2026-03-28 01:30", "2026-03-30 00:30"]),
        ("30 2 * * *", "2026-10-24 12:00", ["2026-10-25 00:30", "2026-10-26 01:30"]),
        ("30 * * * *", "2026-10-24 23:45", ["2026-10-25 00:30", "2026-10-25 01:30"]),
        ("30 * * * *", "2026-03-29 00:00", ["2026-03-29 00:30", "2026-03-29 01:30"]),
        ("0 9 * * *", "2026-03-28 12:00", ["2026-03-29 07:00"]),
    ],
)
def test_where_clocks_change(schedule, after, times) -> None:
    assert following(schedule, after, len(times), "Europe/Berlin") == times


def test_a_zone_far_from_the_epoch_s() -> None:
    assert following("0 0 * * *", "2026-11-21 00:00", 1, "Asia/Kolkata") == ["2026-11-21 18:30"]


FIELD = {0: (0, 59), 1: (0, 23), 2: (1, 31), 3: (1, 12), 4: (0, 6)}


@hs.composite
def fields(draw: hs.DrawFn) -> tuple[str, list[set[int]]]:
    """Draw a schedule that is due at least sometimes; return it with the values of its fields."""
    words, values = [], []
    for low, high in FIELD.values():
        kind = draw(hs.sampled_from(["*", "*", "one", "range", "step"]))
        if kind == "*":
            words.append("*")
            values.append(set(range(low, high + 1)))
        elif kind == "one":
            x = draw(hs.integers(low, min(high, 28)))
            words.append(str(x))
            values.append({x})
        elif kind == "range":
            a = draw(hs.integers(low, min(high, 28)))
            b = draw(hs.integers(a, high))
            words.append(f"{a}-{b}")
            values.append(set(range(a, b + 1)))
        else:
            n = draw(hs.integers(2, 5))
            words.append(f"*/{n}")
            values.append(set(range(low, high + 1, n)))
    return " ".join(words), values


@settings(max_examples=examples(120))
@given(given_fields=fields(), start=hs.integers(0, 10**6))
def test_the_next_time_is_the_first_minute_that_matches(given_fields, start) -> None:
    text, (minutes, hours, days, months, weekdays) = given_fields
    moment = 1_700_000_000 + start * 61
    found = parse_schedule(text).after(moment)
    words = text.split()
    both = words[2] == "*" or words[4] == "*"

    def matches(minute: int) -> bool:
        t = datetime.fromtimestamp(minute * 60, UTC)
        day, weekday = t.day in days, t.isoweekday() % 7 in weekdays
        return (
            t.minute in minutes
            and t.hour in hours
            and t.month in months
            and ((day and weekday) if both else (day or weekday))
        )

    first = moment // 60 + 1
    horizon = first + 3 * 24 * 60
    expected = next((m for m in range(first, horizon) if matches(m)), None)
    if expected is not None:
        assert found == expected * 60
    else:
        assert found is None or found >= horizon * 60
        assert found is None or matches(int(found) // 60)


CHANGES = [
    ("Australia/Lord_Howe", "2026-10-03T14:00"),  # half an hour ahead
    ("Australia/Lord_Howe", "2026-04-04T13:00"),  # half an hour back
    ("Asia/Pyongyang", "2015-08-14T14:00"),
    ("America/Caracas", "2016-05-01T05:00"),
    ("America/St_Johns", "2006-10-29T01:00"),  # at a minute past midnight
    ("Europe/Berlin", "2026-03-28T23:00"),
    ("Europe/Berlin", "2026-10-24T23:00"),
]


@pytest.mark.parametrize(("zone", "begin"), CHANGES)
@pytest.mark.parametrize(
    "fields", ["30 * * * *", "5 */2 * * *", "45 1 * * *", "*/15 0-3 * * *", "50 23 * * *"]
)
def test_around_a_change_of_clocks_every_time_that_the_clock_shows_is_meant(zone, begin, fields):
    """Time passes in minutes. If clocks show an hour twice and a schedule names this hour, only the
    first one counts.
    """
    tz, schedule = ZoneInfo(zone), parse_schedule(fields)
    first = int(datetime.fromisoformat(f"{begin}+00:00").timestamp())
    of_minute, of_hour, *_ = schedule.fields.split()
    minutes = set(map(int, of_minute.split(",")))
    any_hour = of_hour.startswith("*")
    step = int(of_hour.partition("/")[2] or 1)
    hours = set(range(0, 24, step)) if any_hour else set(map(int, of_hour.split(",")))
    meant = []
    for time in range(first, first + 12 * 3600, 60):
        shown = datetime.fromtimestamp(time, tz)
        if shown.minute in minutes and shown.hour in hours and (any_hour or not shown.fold):
            meant.append(time)
    found, moment = [], first - 1.0
    while (following := schedule.after(moment, zone)) is not None and following < first + 12 * 3600:
        found.append(int(following))
        moment = following
    assert found == meant
