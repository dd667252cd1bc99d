"""Measurements with a clock that the test sets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx_benchmarks.measure import Effort, rates, seconds


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def effort(**changes):
    values = {
        "rounds": 1,
        "warm_up_s": 1.0,
        "repetitions": 4,
        "repetition_s": 2.0,
        "limit_s": 1000.0,
        "scale": 1.0,
    }
    return Effort(**{**values, **changes})


@given(
    call_s=st.floats(0.001, 30), per_call=st.sampled_from([1, 0.8, 1000]), count=st.integers(1, 5)
)
def test_a_steady_call_gives_its_rate_in_every_repetition(call_s, per_call, count):
    clock = Clock()

    def work():
        clock.now += call_s

    samples = rates(work, per_call=per_call, effort=effort(repetitions=count), clock=clock)
    assert samples == pytest.approx([per_call / call_s] * count)


def test_the_warm_up_is_not_measured():
    clock = Clock()
    calls = []

    def slow_at_first():
        calls.append(1)
        clock.now += 5 if len(calls) == 1 else 1

    assert rates(slow_at_first, per_call=1, effort=effort(), clock=clock) == [1, 1, 1, 1]


def test_a_row_that_becomes_steady_late_warms_up_for_longer():
    clock = Clock()
    calls = []

    def slow_ten_times():
        calls.append(1)
        clock.now += 5 if len(calls) <= 10 else 1

    samples = rates(slow_ten_times, per_call=1, effort=effort(), warm_up_calls=10, clock=clock)
    assert samples == [1, 1, 1, 1]


def test_a_slow_row_stops_at_the_limit_with_at_least_one_sample():
    clock = Clock()

    def work():
        clock.now += 50

    assert rates(work, per_call=1, effort=effort(limit_s=60), clock=clock) == [1 / 50]


def test_seconds_leave_out_what_comes_after():
    clock = Clock()

    def work():
        clock.now += 3

    def after():
        clock.now += 100

    assert seconds(work, times=2, after=after, clock=clock) == [3, 3]
