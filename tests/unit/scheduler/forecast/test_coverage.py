"""The forecast gives two times for a start. The real start must be between them as often as
promised, in whatever order work comes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

import msgspec
import numpy as np
from tests.unit.scheduler.forecast import drawn

from phalanx.scheduler.cycle.amounts import Vector
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.forecast.planner import Planner
from phalanx.scheduler.forecast.run_times import RUNS, LearntRunTimes
from phalanx.scheduler.forecast.track_record import (
    ENOUGH,
    KEPT,
    SHORTEST_S,
    StartEstimate,
    TrackRecord,
)
from phalanx.scheduler.plugins.reservation import PLANNER
from phalanx_research.timed import Rules, simulate

MEDIANS_S = (60.0, 300.0, 1_200.0)
SPREAD = 0.5
CLUSTERS = 40


class Greedy:
    """Promises of cycles that do not keep any promise."""

    held_back: Mapping[str, float | None] = {}
    places: Mapping[str, Mapping[int, Vector]] = {}

    def __init__(self, session: Session) -> None:
        self._endless: Vector = np.full(session.cluster.future.shape, 1e15)

    def spare(self, length_s: float | None) -> Vector:
        return self._endless


class Listening:
    """A planner that knows past runs but no limits. It records the first times that it gives for
    each waiting gang.
    """

    def __init__(self, learnt: LearntRunTimes) -> None:
        self._planner = Planner(learnt)
        self.told: dict[str, tuple[float, float]] = {}

    def promises(self, session: Session, promised: int, minimum: int) -> Greedy:
        for job in session.cluster.jobs:
            job.spec = msgspec.structs.replace(job.spec, run_time_s=None)
        plan = self._planner.plan(session)
        for one in plan.starts:
            if one.at_s > plan.now and one.earliest_s is not None:
                self.told.setdefault(one.podgroup, (one.earliest_s, one.at_s))
        return Greedy(session)


def told_and_started(seed: int, record: TrackRecord) -> list[tuple[float, float, float]]:
    """Return (earliest, latest, start) of the gangs that had to wait, in a random cluster without
    limits.
    """
    draw = random.Random(seed)
    nodes, queues = drawn.machines(draw), drawn.queues(draw)
    kinds: dict[str, float] = {}
    work = []
    for job in drawn.jobs(draw, nodes, queues):
        median_s = kinds[job.name] = draw.choice(MEDIANS_S)
        work_s = draw.lognormvariate(math.log(median_s), SPREAD)
        work.append(msgspec.structs.replace(job, work_s=work_s))
    learnt = LearntRunTimes(lambda group: str(kinds[group.name]).encode())
    learnt.track_record = record
    for median_s in MEDIANS_S:
        for _ in range(RUNS):
            learnt.add(str(median_s).encode(), draw.lognormvariate(math.log(median_s), SPREAD))
    listening = Listening(learnt)
    result = simulate(
        work,
        nodes,
        config=drawn.keeping(),
        queues=queues,
        rules=Rules(period_s=0.0),
        shells={PLANNER: listening},
    )
    starts = {f"default/{job.name}": job.start_s for job in result.jobs}
    for uid, start in starts.items():
        if start is not None:
            record.started(uid, start)
    found = ((*listening.told[uid], starts[uid]) for uid in listening.told)
    return [(early, late, start) for early, late, start in found if start is not None]


def test_four_in_five_start_between_the_two_times_that_they_were_told() -> None:
    record = TrackRecord()
    found = [one for seed in range(CLUSTERS) for one in told_and_started(seed, record)]
    within = sum(early - 1 <= start <= late + 1 for early, late, start in found)
    assert len(found) > 200
    assert within / len(found) >= 0.8


def reported(record: TrackRecord, uid: str, wait_s: float = 100.0) -> tuple[float, float]:
    return record.report(uid, StartEstimate(1_000.0, 1_000.0 + wait_s / 2, 1_000.0 + wait_s))


def test_too_few_starts_widen_nothing() -> None:
    record = TrackRecord()
    for i in range(ENOUGH - 1):
        reported(record, str(i))
        record.started(str(i), 2_000.0)
    assert reported(record, "next") == (1_050.0, 1_100.0)


def test_starts_that_came_late_and_early_widen_what_is_told_in_parts_of_the_wait() -> None:
    record = TrackRecord()
    for i in range(ENOUGH):
        reported(record, str(i))
        record.started(str(i), 1_110.0 if i else 1_010.0)
    assert reported(record, "as long") == (1_010.0, 1_110.0)
    assert reported(record, "longer", 1_000.0) == (1_100.0, 2_100.0)
    assert reported(record, "longest", 10_000.0) == (2_000.0, 12_000.0)


def test_what_held_is_not_narrowed() -> None:
    record = TrackRecord()
    for i in range(ENOUGH):
        reported(record, str(i))
        record.started(str(i), 1_075.0)
    assert reported(record, "next") == (1_050.0, 1_100.0)


def test_what_is_told_first_counts_and_a_short_wait_is_no_measure() -> None:
    record = TrackRecord()
    for i in range(ENOUGH):
        reported(record, str(i), wait_s=1.0)
        reported(record, str(i), wait_s=5_000.0)
        record.started(str(i), 1_001.0 + SHORTEST_S)
    assert reported(record, "next") == (1_050.0, 1_200.0)


def test_starts_of_long_ago_and_what_never_starts_are_forgotten() -> None:
    record = TrackRecord()
    reported(record, "gone")
    record.forget("gone")
    record.started("gone", 9_999.0)
    assert len(record) == 0
    for i in range(KEPT + 1):
        reported(record, str(i))
        record.started(str(i), 1_100.0)
    assert len(record) == KEPT
