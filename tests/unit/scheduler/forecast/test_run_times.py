"""Estimates of how long jobs will run, from past runs."""

from __future__ import annotations

import random

import msgspec
import numpy as np
import pytest
from tests.unit.scheduler.forecast.drawn import drawn_snapshot

from phalanx.scheduler.cycle.cycle import decide
from phalanx.scheduler.cycle.specs import PodGroupSpec
from phalanx.scheduler.forecast.grid import HORIZON_S, STEPS, Grid
from phalanx.scheduler.forecast.planner import Planner
from phalanx.scheduler.forecast.run_times import KINDS, RUNS, LearntRunTimes, PastRuns


def named(name: str) -> PodGroupSpec:
    return PodGroupSpec(name=name, queue="q")


def test_a_part_of_those_that_ran_longer() -> None:
    runs = PastRuns()
    assert runs.quantile(0.9) is None
    for seconds in (50.0, 10.0, 40.0, 20.0, 30.0):
        runs.add(seconds)
    assert (runs.quantile(0.1), runs.quantile(0.9)) == (10.0, 50.0)
    assert runs.quantile(0.0, 25.0) == 30.0, "one that has run 25 s runs 30 s at least"
    assert runs.quantile(0.5, 50.0) is None, "none ran longer"


def test_the_oldest_runs_are_forgotten() -> None:
    runs = PastRuns()
    for seconds in range(RUNS + 1):
        runs.add(float(seconds))
    assert len(runs) == RUNS
    assert runs.quantile(0.0, -1.0) == 1.0


def test_kinds_that_ended_long_ago_are_forgotten() -> None:
    learnt = LearntRunTimes(lambda group: group.name.encode())
    for i in range(KINDS):
        learnt.add(f"k{i}".encode(), 1.0)
    learnt.add(b"k0", 2.0)
    learnt.add(b"new", 1.0)
    assert learnt.of(named("k1")) is None
    first = learnt.of(named("k0"))
    assert first is not None
    assert len(first) == 2


def test_a_plan_on_past_runs_gives_two_times_and_says_so() -> None:
    snapshot = drawn_snapshot(random.Random(7))
    silent = [msgspec.structs.replace(g, run_time_s=None) for g in snapshot.podgroups]
    snapshot = msgspec.structs.replace(snapshot, podgroups=tuple(silent))
    learnt = LearntRunTimes(lambda group: b"all alike")
    for i in range(1, 101):
        learnt.add(b"all alike", 100.0 + i)
    session = decide(snapshot, explains=False)[0]
    waiting = [one for one in Planner(learnt).plan(session).starts if one.at_s > snapshot.now]
    assert waiting
    for one in waiting:
        assert one.earliest_s is not None
        assert one.earliest_s < one.at_s
        assert one.basis.by_past_runs > 0
        assert one.basis.by_limit == 0
        assert f"{one.basis.past_runs} past runs" in str(one.basis)
    assert all(one.at_s == snapshot.now for one in Planner().plan(session).starts)


@pytest.mark.parametrize("now", [0.0, 0.25, 10.0, 1_763_000_000.7])
def test_later_grids_have_all_times_of_earlier_ones(now: float) -> None:
    grid = Grid(now)
    steps = np.diff(grid.times)
    assert (steps > 0).all()
    assert (steps[1:] <= np.maximum((grid.times[2:] - now) / STEPS, 1.0)).all()
    assert grid.at(len(grid) - 1) > now + HORIZON_S * 0.9
    for passed in (0.5, 1.0, 77.7, 5_000.0, 1e6):
        later = Grid(now + passed)
        kept = grid.times[grid.times > later.now]
        kept = kept[kept <= later.at(len(later) - 1)]
        assert np.isin(kept, later.times).all()
