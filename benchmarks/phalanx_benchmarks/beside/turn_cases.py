"""Lets each user of an account submit several jobs on real Slurm and on Phalanx, then lets one job
start, and yields the rows that `turns` compares.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from phalanx_benchmarks.beside.histories import Accounts, ShortJob
from phalanx_benchmarks.beside.history_rows import Users, listed
from phalanx_benchmarks.beside.history_runs import drained, manifest, submit, undrain
from phalanx_benchmarks.beside.phalanx_cluster import PhalanxCluster
from phalanx_benchmarks.beside.phalanx_listings import (
    PRIORITY,
    SHARES_JSON,
    as_sprio,
    users_in,
)
from phalanx_benchmarks.beside.processes import wait_until
from phalanx_benchmarks.beside.rows import DIFFERS, SAME, Row
from phalanx_benchmarks.beside.slurm_cluster import SlurmCluster
from phalanx_benchmarks.beside.turns import (
    NO_PENALTY_S,
    OTHER_USE,
    TAKE_TURNS,
    USUAL_PENALTY_S,
    Waiting,
    drawn_turns,
    here,
    order_text,
    there,
    turn_row,
    waiting,
)

_RUNS_S = 5.0
"""Seconds for which the first job runs before the orders are read again."""


class Seen(NamedTuple):
    """The waiting jobs and the users, as both sides print them at one moment."""

    theirs: list[Waiting]
    users_there: Users
    ours: list[Waiting]
    users_here: Users


def compare(
    real: SlurmCluster,
    ours: PhalanxCluster,
    name: str,
    accounts: Accounts,
    draw: random.Random,
    rules: Mapping[float, str],
) -> Iterator[Row]:
    """Yield the rows of one account. `rules`: Phalanx's rules, by the penalty in seconds."""
    jobs = drawn_turns(draw, accounts)
    with drained(real, ours):
        names = _submit(real, ours, jobs)
        seen = _seen(real, ours, names)
        yield turn_row(
            f"{name}: several jobs of a user",
            (seen.theirs, seen.ours),
            (there(jobs, seen.users_there), here(jobs, seen.users_here, NO_PENALTY_S)),
            OTHER_USE,
        )
        ours.set_rules(rules[USUAL_PENALTY_S])
        turns = _seen(real, ours, names)
        yield turn_row(
            f"{name}: several jobs of a user, in turns",
            (turns.theirs, turns.ours),
            (there(jobs, turns.users_there), here(jobs, turns.users_here, USUAL_PENALTY_S)),
            TAKE_TURNS,
        )
        first = _start_one(real, ours)
        is_next = first == (seen.theirs[0].job, turns.ours[0].job)
        yield Row(f"{name}: the next job starts", SAME if is_next else DIFFERS, *first)
        real.restart_controller()
        after = _seen(real, ours, names)
        expected = [one for one in turns.ours if one.job != first[1]]
        is_kept = order_text(after.ours) == order_text(expected)
        yield Row(
            f"{name}: the order that was shown before a job started is kept here",
            SAME if is_kept else DIFFERS,
            order_text(expected),
            order_text(after.ours),
        )
        ours.set_rules(rules[NO_PENALTY_S])
        after = _seen(real, ours, names)
        left = [[job for job in jobs if job.name != one] for one in first]
        yield turn_row(
            f"{name}: several jobs of a user, after one has started",
            (after.theirs, after.ours),
            (there(left[0], after.users_there), here(left[1], after.users_here, NO_PENALTY_S)),
            OTHER_USE,
        )


def _submit(real: SlurmCluster, ours: PhalanxCluster, jobs: Sequence[ShortJob]) -> dict[str, str]:
    """Submit the jobs on both sides. Return their names by Slurm's numbers."""
    lines = [
        f"sbatch --parsable --uid={job.user} -A {job.account} -J {job.name} -N1"
        f" --ntasks-per-node={job.cpus} --mem=10 -o /dev/null --wrap 'sleep {job.sleeps_s}'"
        for job in jobs
    ]
    numbers = real.done("cd /tmp; " + " && ".join(lines)).split()
    submit(ours, [manifest(job) for job in jobs])
    return dict(zip(numbers, (job.name for job in jobs), strict=True))


def _seen(real: SlurmCluster, ours: PhalanxCluster, names: Mapping[str, str]) -> Seen:
    return Seen(
        waiting(real.done("sprio -l -h"), names),
        listed(real.done("sshare -l -a -P -n")),
        waiting(as_sprio(ours.done(PRIORITY))),
        users_in(ours.done(SHARES_JSON)),
    )


def _start_one(real: SlurmCluster, ours: PhalanxCluster) -> tuple[str, str]:
    """Give both sides one node. Return the names of the jobs that run there after a while."""
    undrain(real, ours, real.nodes[0])
    running = "squeue -h -t R -o %j"
    wait_until(
        lambda: all(side.run(running).stdout.strip() for side in (real, ours)), "jobs that run"
    )
    time.sleep(_RUNS_S)
    theirs, mine = (side.done(running).strip() for side in (real, ours))
    return theirs, mine
