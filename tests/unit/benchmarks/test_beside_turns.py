"""The order of several waiting jobs of each user: the order that each side's rule gives, and how
two orders are compared. Slurm's lines are those of 22.05.8.
"""

from __future__ import annotations

import random

import pytest

from phalanx_benchmarks.beside import rows
from phalanx_benchmarks.beside.histories import ShortJob
from phalanx_benchmarks.beside.history_rows import listed
from phalanx_benchmarks.beside.turns import (
    NO_PENALTY_S,
    TAKE_TURNS,
    USUAL_PENALTY_S,
    drawn_turns,
    here,
    order_text,
    there,
    turn_row,
    waiting,
)

LINES = """\
  h0a1|daemon|1|0.333333|400000|0.1|0.400000|0.600000|0.833333||
  h0a1|games|2|0.666667|600000|0.1|0.600000|0.800000|1.111111||
"""
JOBS = [
    ShortJob(f"{user}{number}", "h0a1", user, 4, 0, 90.0)
    for user, number in (("daemon", 0), ("games", 0), ("games", 1), ("daemon", 1))
]
SPRIO = """\
 41 primary daemon 6000 0 0 0 6000 0
 42 primary games 8000 0 0 0 8000 0
 43 primary games 8000 0 0 0 8000 0
 44 primary daemon 6000 0 0 0 6000 0
"""
NAMES = dict(zip(("41", "42", "43", "44"), (job.name for job in JOBS), strict=True))


def test_all_jobs_of_a_user_have_the_same_priority_in_slurm() -> None:
    theirs = waiting(SPRIO, NAMES)
    assert order_text(theirs) == "games0 games1 daemon0 daemon1"
    assert theirs == there(JOBS, listed(LINES))


@pytest.mark.parametrize(
    ("penalty_s", "order"),
    [  # daemon 1 / 3 / 0.4, games 2 / 3 / 0.6; a started job adds 400000 a second to the use
        (NO_PENALTY_S, "games0 games1 daemon0 daemon1"),
        (0.8, "games0 daemon0 games1 daemon1"),
        (USUAL_PENALTY_S, "games0 daemon0 games1 daemon1"),
    ],
)
def test_users_take_turns_as_soon_as_the_penalty_counts(penalty_s, order) -> None:
    ours = here(JOBS, listed(LINES), penalty_s)
    assert order_text(ours) == order
    assert [one.priority for one in ours] == [10000, 7500, 5000, 2500]


def test_only_the_rules_may_make_orders_differ() -> None:
    theirs, users = waiting(SPRIO, NAMES), listed(LINES)
    same = here(JOBS, users, NO_PENALTY_S)
    turns = here(JOBS, users, USUAL_PENALTY_S)
    assert turn_row("t", (theirs, same), (theirs, same), "").kind == rows.SAME
    row = turn_row("t", (theirs, turns), (theirs, turns), TAKE_TURNS)
    assert (row.kind, row.why) == (rows.ON_PURPOSE, TAKE_TURNS)
    row = turn_row("t", (theirs, turns), (theirs, same), TAKE_TURNS)
    assert row.kind == rows.DIFFERS
    assert row.ours.splitlines()[1:] == [
        "daemon0 PRIORITY 7500 FAIRSHARE 7500, by rule games1 7500 7500",
        "games1 PRIORITY 5000 FAIRSHARE 5000, by rule daemon0 5000 5000",
    ]


@pytest.mark.parametrize("seed", range(5))
def test_each_user_of_the_account_has_several_jobs(seed) -> None:
    accounts = {"a": (1, {"x": 1, "y": 2}), "b": (2, {"z": 1})}
    jobs = drawn_turns(random.Random(seed), accounts)
    assert jobs == drawn_turns(random.Random(seed), accounts)
    counts = [sum(job.user == user for job in jobs) for user in accounts[jobs[0].account][1]]
    assert counts and set(counts) <= {2, 3}
