"""Counts are exact up to a limit on the number of names. Values beyond the limit are still counted,
under a common name.
"""

from __future__ import annotations

import msgspec
import pytest

from phalanx.observe.metrics.definitions import (
    COUNTER,
    GAUGE,
    HISTOGRAM,
    Definition,
    Numbers,
)
from phalanx.observe.metrics.meter import Meter

KINDS = {
    "c": Definition(COUNTER, "", ("queue", "function"), (), 2),
    "g": Definition(GAUGE, "", ("queue",)),
    "h": Definition(HISTOGRAM, "", (), (1.0, 10.0)),
}


def samples(meter: Meter, name: str) -> dict[tuple[str, ...], float]:
    return {one.labels: one.value for one in meter.families[name].samples.values()}


@pytest.fixture
def meter() -> Meter:
    return Meter(KINDS)


def test_counters_add_and_gauges_are_set(meter: Meter) -> None:
    meter.add("c", "q", "f")
    meter.add("c", "q", "f", by=2)
    meter.set("g", 5, "q")
    meter.set("g", 3, "q")
    assert samples(meter, "c") == {("q", "f"): 3}
    assert samples(meter, "g") == {("q",): 3}


def test_a_value_counts_up_to_its_bound(meter: Meter) -> None:
    for value in (0.5, 1.0, 1.5, 10.0, 11.0):
        meter.observe("h", value)
    meter.observe("h", 2.0, times=3)
    [sample] = meter.families["h"].samples.values()
    assert sample.counts == [2, 5, 1]
    assert sample.value == 30


def test_what_is_beyond_the_bound_is_folded_and_not_lost(meter: Meter) -> None:
    for number in range(100):
        meter.add("c", "q", f"f{number}")
    assert samples(meter, "c") == {("q", "f0"): 1, ("q", "f1"): 1, ("q", "_other"): 98}
    for number in range(100):
        meter.add("c", f"q{number}", "f0")
    found = samples(meter, "c")
    assert sum(found.values()) == 200
    assert found["_other", "_other"] == 99
    assert len(found) == 5


def test_what_one_drains_another_takes_in(meter: Meter) -> None:
    other = Meter(KINDS)
    for _ in range(2):
        meter.add("c", "q", "f")
        meter.set("g", 7, "q")
        meter.observe("h", 4.0)
        sent = msgspec.msgpack.encode(meter.drain())
        for numbers in msgspec.msgpack.decode(sent, type=list[Numbers]):
            other.take_in(numbers)
    assert meter.drain() == []
    assert samples(other, "c") == {("q", "f"): 2}
    assert samples(other, "g") == {("q",): 7}
    [sample] = other.families["h"].samples.values()
    assert (sample.value, sample.counts) == (8, [0, 2, 0])
