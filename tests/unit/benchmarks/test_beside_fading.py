"""The comparison of decay, age and size with real Slurm, as far as it needs no Slurm."""

from __future__ import annotations

import random

import pytest

from phalanx_benchmarks.beside.factor_rows import order_text, ruled, whole_jobs
from phalanx_benchmarks.beside.fading import (
    CPUS,
    HALF_LIFE_S,
    LOOK_S,
    MAX_AGE_S,
    NODES,
    drawn_fading,
    expected_use,
    use_here,
    use_there,
)
from phalanx_benchmarks.beside.histories import ShortJob
from phalanx_benchmarks.beside.history_rows import WEIGHT, Listed
from phalanx_benchmarks.beside.history_runs import Span

JOB = ShortJob("j", "a", "x", 1, 10, 10.0)
KEY = ("a", "x")
LEFT = 1 - 0.693 / HALF_LIFE_S


@pytest.mark.parametrize("seed", range(20))
def test_what_is_drawn_is_decided_by_decay_and_not_by_luck(seed) -> None:
    history = drawn_fading(random.Random(seed), "f")
    assert history == drawn_fading(random.Random(seed), "f")
    assert {job.user for job in history.early}.isdisjoint(job.user for job in history.late)
    waiting = history.waiting
    assert sorted(job.user for job in waiting) == sorted(history.users)
    assert [job.is_held for job in waiting].count(True) == 1
    assert len(whole_jobs(history)) == len(waiting) - 1
    assert waiting[0].at_s == 0.0 < LOOK_S - MAX_AGE_S
    assert all(job.nodes <= NODES and job.cpus <= CPUS for job in waiting)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("size", [WEIGHT, -WEIGHT])
def test_the_order_of_waiting_jobs_does_not_depend_on_two_seconds(seed, size) -> None:
    history = drawn_fading(random.Random(seed), "f")
    used = expected_use(history)
    users = {
        (history.account, user): Listed(
            str(shares), "", used.get((history.account, user), 0.0), 0, 0, 0, 0
        )
        for user, shares in history.users.items()
    }
    exact = {job.user: LOOK_S - job.at_s for job in history.waiting}
    orders = {
        order_text(ruled(history, users, {**exact, user: age + late_s}, size), whole_jobs(history))
        for user, age in exact.items()
        for late_s in (-2.0, 0.0, 2.0)
    }
    assert len(orders) == 1


@pytest.mark.parametrize(
    ("span", "ticks", "seconds"),
    [
        # a job that runs when use is computed; then it decays by whole periods
        (Span(10, 110), (100, 105, 110), 5 * LEFT**5 * LEFT**5 + 5 * LEFT**5 * LEFT**5),
        (Span(10, 110), (100, 160), 10 * LEFT**10 * LEFT**60),
        (Span(10, 110), (100, 120, 180), 10 * LEFT**10 * LEFT**20 * LEFT**60),
        (Span(10, 210), (100, 205), 5 * LEFT**5),
        (Span(0, 110), (100, 160), 0.0),
    ],
)
def test_use_by_slurms_rule(span, ticks, seconds) -> None:
    assert use_there([JOB], {"j": span}, ticks)[KEY] == pytest.approx(JOB.rate * seconds)


def test_use_by_our_rule_lies_between_two_bounds() -> None:
    least, most = use_here([JOB], {"j": Span(10, 100)}, (160.0, 161.0))
    assert least[KEY] < JOB.rate * 10 * 2 ** (-65 / 60) < most[KEY]
    assert most[KEY] < 1.2 * least[KEY]
