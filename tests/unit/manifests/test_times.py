"""Lengths of time and moments, as people write them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as hs

from phalanx.manifests.times import read_length, read_limit, read_moment, written_moment
from phalanx.manifests.timing import read_signal, requeue_of
from phalanx.model.jobs.timing import LATEST_S, LONGEST_S, Moment, Requeue, WarningSignal
from phalanx.model.readable import length_text

MINUTE, HOUR, DAY = 60, 3600, 86_400
LENGTHS = {
    "90": 90 * MINUTE,
    "90:30": 90 * MINUTE + 30,
    "1:30:00": HOUR + 30 * MINUTE,
    "100:00:00": 100 * HOUR,
    "1-12": DAY + 12 * HOUR,
    "1-12:00": DAY + 12 * HOUR,
    "1-12:30": DAY + 12 * HOUR + 30 * MINUTE,
    "1-12:30:15": DAY + 12 * HOUR + 30 * MINUTE + 15,
    "0-0:1": MINUTE,
    "2h": 2 * HOUR,
    "90m": 90 * MINUTE,
    "2h30m": 2 * HOUR + 30 * MINUTE,
    "1d12h": DAY + 12 * HOUR,
    "45s": 45,
    "1.5h": 90 * MINUTE,
    " 2h ": 2 * HOUR,
}
NO_LENGTHS = [
    "", "h", "0", "0s", "-5", "-2h", "2 h", "two hours", "1:60", "1:60:00", "1:00:60", "1-24",
    "1-12:60", "1:2:3:4", "1-", "-12:00", "nan", "inf", "1e5", "2h30", "30h2x", "1d-2h", "9" * 13,
    "9" * 50 + "h", "99999999h", "٢h", "unlimited",
]  # fmt: skip


@pytest.mark.parametrize("text", LENGTHS)
def test_a_length_is_read(text):
    assert read_length(text) == LENGTHS[text]


@pytest.mark.parametrize("text", NO_LENGTHS)
def test_what_is_no_length_is_refused_with_what_would_be_one(text):
    with pytest.raises(ValueError, match=r"a length of time (is|must be)"):
        read_length(text)


@pytest.mark.parametrize(
    "text", ["99999999999999d", "9" * 20, "99999999999-00:00", "9" * 15 + ":00"]
)
def test_a_length_that_is_too_long_is_not_called_malformed(text):
    with pytest.raises(ValueError, match=r"must be more than 0 and at most 1e\+09 s: 9"):
        read_length(text)
    with pytest.raises(ValueError, match=r"a moment is at most 1e\+09 s after now: now\+9"):
        read_moment(f"now+{text}", now=NOON)


def test_a_limit_may_be_none():
    assert read_limit("none") == 0
    assert read_limit("2h") == 2 * HOUR


@given(hs.integers(1, int(LONGEST_S)))
def test_a_length_is_read_as_it_is_written(seconds):
    assert read_length(length_text(seconds)) == seconds


@given(hs.floats(0.001, 1e6).map(lambda x: round(x, 6)))
def test_so_is_one_with_parts_of_seconds(seconds):
    assert read_length(length_text(seconds)) == pytest.approx(seconds)


NOON = datetime(2026, 11, 23, 12, tzinfo=UTC).timestamp()
MOMENTS = {
    "now": Moment(after_s=0),
    "now+1h": Moment(after_s=HOUR),
    "now + 1h": Moment(after_s=HOUR),
    "now+2h30m": Moment(after_s=2.5 * HOUR),
    "now+60": Moment(after_s=60),
    "now+1:30:00": Moment(after_s=1.5 * HOUR),
    "now+3minutes": Moment(after_s=180),
    "now+2days": Moment(after_s=2 * DAY),
    "now+1week": Moment(after_s=7 * DAY),
    "2026-11-23T12:00Z": Moment(at=NOON),
    "2026-11-23 12:00:00Z": Moment(at=NOON),
    "2026-11-23T13:00:00+01:00": Moment(at=NOON),
}
NO_MOMENTS = [
    "", "later", "now-1h", "now+", "now+x", "now+1e3", "now+1fortnight", "25:00", "12:60",
    "2026-11", "2026-13-01", "2026-11-31T10:00", "1-1-1", "2026-11-23T", "2026-11-23T12",
    "1969-12-31T00:00Z",    "2026-11-23T12:00:00+99:00", "now+9999999999",
]  # fmt: skip


@pytest.mark.parametrize("text", MOMENTS)
def test_a_time_of_day_is_read(text):
    assert read_moment(text) == MOMENTS[text]


@pytest.mark.parametrize("text", NO_MOMENTS)
def test_what_is_no_time_of_day_is_refused(text):
    with pytest.raises(ValueError, match="a moment is"):
        read_moment(text, now=NOON)


@pytest.mark.parametrize("text", ["18:00", "06:30:15", "0:00"])
def test_a_clock_s_time_is_the_next_one(text):
    moment = read_moment(text, now=NOON).since(NOON)
    assert 0 < moment - NOON <= 25 * HOUR  # a day on which clocks go back has 25
    shown = datetime.fromtimestamp(moment).strftime("%H:%M:%S")
    assert shown == ":".join(part.zfill(2) for part in [*text.split(":"), "00"][:3])


def test_a_clock_s_time_is_none_for_who_does_not_know_the_time():
    with pytest.raises(ValueError, match="a moment is"):
        read_moment("18:00")


@given(hs.integers(0, int(LATEST_S) - 1), hs.booleans())
def test_a_moment_is_read_as_it_is_written(seconds, is_after):
    moment = Moment(after_s=seconds % int(LONGEST_S)) if is_after else Moment(at=seconds)
    assert read_moment(written_moment(moment)) == moment


@given(hs.text(max_size=50))
def test_no_text_makes_reading_fail_otherwise(text):
    for read in (read_length, read_moment, read_signal):
        try:
            read(text)
        except ValueError as error:
            assert len(str(error)) < 300


@pytest.mark.parametrize(
    ("text", "signal"),
    {
        "USR1": WarningSignal(name="USR1"),
        "USR1@300": WarningSignal(name="USR1", before_s=300),
        "SIGTERM@5": WarningSignal(name="TERM", before_s=5),
        "b:usr2@90": WarningSignal(name="USR2", before_s=90, only_shell=True),
        "10@300": WarningSignal(name="USR1", before_s=300),
    }.items(),
)
def test_a_signal_is_read(text, signal):
    assert read_signal(text) == signal


@pytest.mark.parametrize("text", ["", "KILL", "9", "USR1@", "USR1@-1", "X:USR1", "USR1@1m", "@3"])
def test_what_is_no_signal_is_refused(text):
    with pytest.raises(ValueError, match="USR1@300"):
        read_signal(text)


def test_a_requeue_rule_is_read_from_a_mapping():
    given = {"reasons": ["timeout"], "exitCodes": [75], "max": 2}
    assert requeue_of(given) == Requeue(reasons=("timeout",), exit_codes=(75,), most=2)
    assert requeue_of({}) == Requeue(reasons=("preempted", "node"), exit_codes=(), most=3)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"reasons": ["night"]}, "'night' is not one of timeout, preempted, node"),
        ({"exitCodes": [0]}, "an exit code must be 1 to 255, not 0"),
        ({"exitCodes": [256]}, "not 256"),
        ({"exitCodes": "75"}, "lists"),
        ({"max": -1}, "requeue.max"),
        ({"max": True}, "max a whole number"),
        ({"most": 1}, "no field 'most'"),
    ],
)
def test_a_wrong_rule_is_refused(given, said):
    with pytest.raises(ValueError, match=said):
        requeue_of(given)
