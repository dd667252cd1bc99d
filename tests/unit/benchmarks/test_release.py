"""Ray's release benchmarks as rows of a report. Each is run on Phalanx with small numbers."""

from __future__ import annotations

from types import ModuleType

import pytest

import phalanx
from phalanx_benchmarks import command
from phalanx_benchmarks.measure import EFFORTS
from phalanx_benchmarks.row import RELEASE, start
from phalanx_benchmarks.rows import ROWS, clusters, limits, stress

QUICK = EFFORTS["quick"]


@pytest.fixture(autouse=True)
def no_runtime():
    phalanx.shutdown()
    yield
    phalanx.shutdown()


@pytest.fixture(autouse=True)
def small_numbers(monkeypatch):
    sizes: dict[ModuleType, dict[str, float]] = {
        limits: {"ARGUMENTS": 20, "RESULTS": 10, "OBJECTS": 20, "QUEUED": 50, "_GIB": 1 << 18},
        clusters: {"NODES": 1, "CPUS": 4, "AT_ONCE": 3, "GROUPS": 2, "JOINING": 1, "READERS": 1},
        stress: {"NODES": 2, "GROUPS": 9, "LAYERS": 2, "WIDTH": 3, "DEATHS": 0.5, "ROUNDS": 3},
    }
    for module, values in sizes.items():
        for name, value in values.items():
            assert hasattr(module, name)
            monkeypatch.setattr(module, name, value)


@pytest.mark.parametrize("row", [row for row in ROWS if row.group == RELEASE], ids=lambda r: r.name)
def test_a_row_takes_one_sample_of_seconds(row):
    if row.session:
        start(phalanx, log_to_driver=False)
    (took_s,) = row.sample(phalanx, QUICK)
    assert took_s > 0
    assert (row.unit, row.more_is_better) == ("s", False)


def test_they_are_measured_where_they_are_named():
    assert {row.group for row in command._choose(RELEASE, None)} == {RELEASE}
    assert RELEASE not in {row.group for row in command._choose("engine", None)}
    assert command._choose("placement", None) == []
    assert [row.name for row in command._choose(RELEASE, ["nodes join"])] == [
        "4 nodes join, an actor on each answers"
    ]
