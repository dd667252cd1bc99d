"""The comparison of decay, age and size with real Slurm, tested without Slurm."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from phalanx_benchmarks.beside.factor_rows import order_text, ruled, whole_jobs
from phalanx_benchmarks.beside.fading import (
    CPUS,
    HALF_LIFE_S,
    LOOK_S,
    MAX_AGE_S,
    NODES,
    FadingHistory,
    WaitingJob,
    drawn_fading,
    expected_use,
    use_here,
    use_there,
)
from phalanx_benchmarks.beside.histories import ShortJob
from phalanx_benchmarks.beside.history_rows import WEIGHT, Listed
from phalanx_benchmarks.beside.history_runs import Span

FACTORS = Path(__file__).with_name("slurm_factors.txt").read_text().split("\n\n")[1:]
LINE = (
    r"(?P<user>\w+) shares=(?P<shares>\d+) use=(?P<use>\d+) nodes=(?P<nodes>\d) cpus=(?P<cpus>\d)"
    r" nice=(?P<nice>\d+) waited=(?P<waited>\d+): (?P<factors>[\d ]+)"
)
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


@pytest.mark.parametrize("text", FACTORS)
def test_our_rule_gives_the_priorities_that_real_slurm_printed(text) -> None:
    *lines, order = text.strip().splitlines()
    read = [re.match(LINE, line) for line in lines]
    found = {one["user"]: one for one in read if one is not None}
    assert len(found) == len(lines) > 3
    waiting = [
        WaitingJob(
            name=f"j-{user}",
            user=user,
            nodes=int(one["nodes"]),
            cpus=int(one["cpus"]),
            minutes=1,
            at_s=0.0,
            is_held=False,
            nice=int(one["nice"]),
        )
        for user, one in found.items()
    ]
    history = FadingHistory(
        "f", {user: int(one["shares"]) for user, one in found.items()}, [], [], waiting
    )
    users = {
        ("f", user): Listed(one["shares"], "", float(one["use"]), 0, 0, 0, 0)
        for user, one in found.items()
    }
    ours = ruled(history, users, {user: float(one["waited"]) for user, one in found.items()})
    assert order_text(ours, whole_jobs(history)) == order
    for job in waiting:
        mine = ours[job.user]
        printed = [*mine] if job.is_whole else [mine.age, mine.fairshare]
        assert " ".join(printed) == found[job.user]["factors"]
