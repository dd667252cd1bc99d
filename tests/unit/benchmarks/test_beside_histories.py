"""The comparison of random series of short jobs with real Slurm, tested without Slurm: the jobs
that it draws, and how it reads lines that Slurm 22.05.8 and Phalanx printed on 2026-11-28.
"""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from phalanx_benchmarks.beside import rows
from phalanx_benchmarks.beside.histories import (
    APART,
    COUNTED_S,
    START_S,
    ShortJob,
    drawn_history,
    uses,
)
from phalanx_benchmarks.beside.history_rows import (
    OTHER_TIMES,
    Counted,
    listed,
    order_of_jobs,
    order_of_use,
    order_of_users,
    order_row,
    priority_faults,
    priority_row,
    same,
    shares_of,
    total_of,
    use_row,
)

THEIRS = """\
root|||0.000000|12496203||1.000000||||
 root|root|1|0.166667|0|0.000000|0.000000|1.000000|inf||
 h2a0||4|0.666667|1899932|0.152041|0.152041||4.384789||
  h2a0|bin|1|0.166667|0|0.000000|0.000000|0.875000|inf||
  h2a0|daemon|1|0.166667|399985|0.032009|0.210526|0.625000|0.791667||
  h2a0|sys|1|0.166667|1399949|0.112030|0.736842|0.500000|0.226191||
  h2a0|uucp|3|0.500000|99996|0.008002|0.052632|0.750000|9.499987||
"""
OURS = """\
h2a0|bin|1|0.166667|0|0.000000|0.000000|1.000000|inf||
h2a0|daemon|1|0.166667|668436|0.298482|0.298482|0.500000|0.558382||
h2a0|sys|1|0.166667|1416171|0.632373|0.632373|0.250000|0.263558||
h2a0|uucp|3|0.500000|154848|0.069145|0.069145|0.750000|7.231130||
"""
ACCOUNTS = {"h2a0": (4, {"bin": 1, "uucp": 3, "sys": 1, "daemon": 1})}
JOBS = [
    ShortJob("d", "h2a0", "daemon", 4, 10, 1.1),
    ShortJob("s", "h2a0", "sys", 2, 10, 1.5),
    ShortJob("t", "h2a0", "sys", 4, 10, 2.7),
    ShortJob("u", "h2a0", "uucp", 1, 10, 1.2),
]
THEIR_S = {"d": 1.0, "s": 1.0, "t": 3.0, "u": 1.0}
OUR_S = {"d": 1.0, "s": 1.0, "t": 2.0, "u": 1.0}
"""How long each job ran, in whole seconds, as Phalanx's `sacct` shows it."""
THEIR_ORDER = """\
           4064 primary        bin       8750          0          0          0       8750          0
           4065 primary       uucp       7500          0          0          0       7500          0
           4066 primary        sys       5000          0          0          0       5000          0
           4067 primary     daemon       6250          0          0          0       6250          0
"""


def _used(theirs: str = THEIRS, ours: str = OURS) -> rows.Row:
    longest = {job: seconds + 1.0 for job, seconds in OUR_S.items()}
    counted = Counted(uses(JOBS, THEIR_S), uses(JOBS, OUR_S), uses(JOBS, longest))
    return use_row("h", listed(theirs), listed(ours), counted, total_of(theirs))


def test_lines_of_both_sides_are_the_same_but_for_the_times_of_their_jobs() -> None:
    theirs, ours = listed(THEIRS), listed(OURS)
    assert same("shares", shares_of(theirs), shares_of(ours)).kind == rows.SAME
    assert order_of_users(theirs) == order_of_users(ours) == "h2a0: bin uucp daemon sys"
    assert _used() == rows.Row(
        "h: parts differ by up to 0.104, explained 0.237", rows.MENDED, "", ""
    )


@pytest.mark.parametrize(
    ("side", "old", "new", "found"),
    [
        ("theirs", "|399985|", "|499985|", "h2a0/daemon 499985 0.210526, of sacct 400000 0.210526"),
        ("theirs", "0.008002|", "0.052632|", "h2a0/uucp NormUsage 0.052632"),
        ("theirs", "|0.226191|", "|0.326191|", "h2a0/sys LevelFS 0.326191"),
        ("ours", "|0.632373|0.250000|0.263558", "|0.432373|0.250000|0.385470",
         "h2a0/sys 1416171 0.432373, of sacct 1000000 to 1600000, 0.500000 to 0.761905"),
        ("ours", "|668436|", "|868436|",
         "h2a0/daemon 868436 0.298482, of sacct 400000 to 800000, 0.181818 to 0.421053"),
        ("ours", "|0.069145|0.069145|", "|0.269145|0.069145|",
         "h2a0/uucp NormUsage 0.269145, of sacct 0.040000 to 0.125000"),
        ("ours", "|7.231130|", "|inf|", "h2a0/uucp LevelFS inf"),
    ],
)  # fmt: skip
def test_a_number_that_times_do_not_explain_is_seen(side, old, new, found) -> None:
    row = _used(**{side: (THEIRS if side == "theirs" else OURS).replace(old, new)})
    assert (row.kind, getattr(row, side)) == (rows.DIFFERS, found)


def test_tied_users_are_tied_on_both_sides() -> None:
    tied = OURS.replace("0.500000|0.558382", "0.750000|0.558382")
    assert order_of_users(listed(tied)) == "h2a0: bin daemon=uucp sys"


def test_another_order_is_explained_by_the_times_of_the_jobs_alone() -> None:
    theirs = order_of_use(ACCOUNTS, uses(JOBS, THEIR_S))
    ours = order_of_use(ACCOUNTS, uses(JOBS, {**OUR_S, "d": 9.0}))
    assert (theirs, ours) == ("h2a0: bin uucp daemon sys", "h2a0: bin uucp sys daemon")
    assert order_row("o", (theirs, theirs), (theirs, ours)).kind == rows.SAME
    explained = order_row("o", (theirs, ours), (theirs, ours))
    assert (explained.kind, explained.why) == (rows.ON_PURPOSE, OTHER_TIMES)
    assert order_row("o", (theirs, ours), (theirs, theirs)).kind == rows.DIFFERS


def test_the_next_job_comes_first_and_priorities_have_no_fraction() -> None:
    assert order_of_jobs(THEIR_ORDER, ACCOUNTS) == "h2a0: bin uucp daemon sys"
    assert priority_faults(THEIR_ORDER, listed(THEIRS)) == ""
    users = listed(THEIRS.replace("0.625000", "0.666667"))
    line = "4067 primary daemon {} 0 0 0 {} 0\n"
    assert priority_faults(line.format(6666, 6667), users) == ""
    wrong = priority_faults(line.format(6667, 6667), users)
    assert wrong == "daemon: PRIORITY 6667, FAIRSHARE 6667, not 6666.67"
    assert priority_row("p", "", wrong).kind == rows.DIFFERS
    assert priority_row("p", "", "").kind == rows.MENDED


@pytest.mark.parametrize("seed", range(20))
def test_what_is_drawn_does_not_depend_on_luck(seed) -> None:
    history = drawn_history(random.Random(seed), "h")
    assert history == drawn_history(random.Random(seed), "h")
    assert 10 <= len(history.jobs) <= 20
    used = uses(history.jobs, {job.name: job.sleeps_s + START_S for job in history.jobs})
    names = [(account, user) for account, (_, mine) in history.accounts.items() for user in mine]
    assert len({user for _, user in names}) == len(names) > len(used)
    for key in used:
        assert any(j.sleeps_s >= COUNTED_S for j in history.jobs if (j.account, j.user) == key)
    for account, (_, users) in history.accounts.items():
        levels = [
            shares / used[account, user]
            for user, shares in users.items()
            if shares and (account, user) in used
        ]
        assert all(high >= APART * low for low, high in pairwise(sorted(levels)))
