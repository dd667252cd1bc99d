"""Compares the factors of waiting jobs that real Slurm's `sprio -l` and Phalanx's print: age, fair
share and size. Phalanx's rule also gets Slurm's own inputs; then all digits must be equal.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from phalanx.scheduler.cycle.reading import read_snapshots
from phalanx.scheduler.cycle.registry import known_plugins
from phalanx.scheduler.cycle.waiting import waiting_groups
from phalanx_benchmarks.beside.fading import (
    CPUS,
    HALF_LIFE_S,
    MAX_AGE_S,
    NODES,
    FadingHistory,
    WaitingJob,
)
from phalanx_benchmarks.beside.history_rows import OTHER_TIMES, WEIGHT, Users
from phalanx_benchmarks.beside.rows import DIFFERS, MENDED, ON_PURPOSE, SAME, Row

SIZE = "the size of a job is its part of all billing units, as GPUs count, too"
SMALL_FIRST = "a negative weight prefers small jobs; the priorities differ by this weight"
NO_TIME = "no factor of size depends on the time limit; the plugins sjf and srtf order by time"
_NODE_MIB = 4000


class Factors(NamedTuple):
    """The numbers of a line of `sprio -l -h`, as printed."""

    priority: str
    age: str
    fairshare: str
    size: str


Lines = Mapping[str, Factors]
"""The factors of each waiting job, by the job's user. The job that starts next is the first."""


def lines_of(text: str, *, is_sorted: bool = False) -> Lines:
    """Read the lines of `sprio -l -h`. Slurm sorts them by number; `is_sorted` means that they are
    in the order of the jobs.
    """
    rows = [line.split() for line in text.splitlines()]
    if not is_sorted:
        rows.sort(key=lambda row: -int(row[3]))
    return {row[2]: Factors(row[3], row[5], row[7], row[8]) for row in rows}


def weights(count: int, size: float = WEIGHT) -> dict[str, object]:
    """Return the arguments of the plugin `multifactor` for an account of `count` users. Slurm ranks
    root's own user above them, so FairShare is a rank among `count` + 1 users.
    """
    return {
        "ageWeight": WEIGHT,
        "fairshareWeight": WEIGHT * count / (count + 1),
        "sizeWeight": size,
        "maxAge": f"{MAX_AGE_S:.0f}s",
        "halfLife": f"{HALF_LIFE_S:.0f}s",
        "penalty": "1ms",
        "billing": {"cpu": 100_000},
    }


def ruled(
    history: FadingHistory, users: Users, ages: Mapping[str, float], size: float = WEIGHT
) -> Lines:
    """Return the factors that Phalanx's rule computes from this use and these ages in seconds, by
    user. `size`: the weight of the size.
    """
    now = 1e6
    data = {
        "format": "phalanx-snapshot/1",
        "now": now,
        "config": {
            "actions": "allocate",
            "tiers": [
                {
                    "plugins": [
                        {"name": "gang"},
                        {"name": "multifactor", "arguments": weights(len(users), size)},
                    ]
                },
                {"plugins": [{"name": "predicates"}]},
            ],
        },
        "nodes": [
            {"name": f"n{at}", "capacity": {"cpu": CPUS, "memory": _NODE_MIB * 2**20}}
            for at in range(NODES)
        ],
        "queues": [
            {
                "name": history.account,
                "users": [
                    {"name": user, "shares": float(one.shares), "use": one.use, "at": now}
                    for (_, user), one in users.items()
                ],
            }
        ],
        "podgroups": [
            {
                "name": job.name,
                "queue": history.account,
                "user": job.user,
                "minMember": job.nodes,
                "priority": -job.nice,
                "created": now - ages[job.user],
            }
            for job in history.waiting
        ],
        "tasks": [
            {
                "name": f"{job.name}-{at}",
                "podgroup": job.name,
                "request": {"cpu": job.cpus, "memory": 10 * 2**20},
            }
            for job in history.waiting
            for at in range(job.nodes)
        ],
    }
    (snapshot,) = read_snapshots(json.dumps(data), known_plugins())
    found = {}
    for one in waiting_groups(snapshot):
        factors = one.factors
        found[one.user] = Factors(
            str(max(int(factors["total"] + 1e-6), 1)),
            *(f"{factors[name]:.0f}" for name in ("age", "fairshare", "size")),
        )
    return found


def whole_jobs(history: FadingHistory) -> list[str]:
    """Return the users whose jobs take whole nodes, so that both sides count size equally."""
    return [job.user for job in history.waiting if job.is_whole]


def factors_text(lines: Lines, users: Sequence[str], *names: str) -> str:
    """Return the named factors of these users' jobs."""
    return "\n".join(
        f"{user} {' '.join(getattr(lines[user], name) for name in names)}" for user in users
    )


def order_text(lines: Lines, users: Sequence[str]) -> str:
    """Return these users in the order of their jobs."""
    return " ".join(user for user in lines if user in users)


def rule_row(
    name: str, history: FadingHistory, users: Users, ages: Mapping[str, float], theirs: Lines
) -> Row:
    """Compare Slurm's numbers with those of Phalanx's rule for Slurm's inputs, digit by digit, and
    the order that follows from them. `ages`: the seconds for which each user's job has waited.
    """
    ours = ruled(history, users, ages)
    texts = [
        "\n".join(
            f"{job.user} shares={one.shares} use={one.use:.0f} nodes={job.nodes} cpus={job.cpus}"
            f" nice={job.nice} waited={ages[job.user]:.0f}: {' '.join(_comparable(lines, job))}"
            for job, one in zip(
                history.waiting,
                (users[history.account, job.user] for job in history.waiting),
                strict=True,
            )
        )
        for lines in (theirs, ours)
    ]
    names = whole_jobs(history)
    texts = [
        f"{text}\n{order_text(lines, names)}"
        for text, lines in zip(texts, (theirs, ours), strict=True)
    ]
    return Row(name, SAME if texts[0] == texts[1] else DIFFERS, *texts)


def _comparable(lines: Lines, job: WaitingJob) -> list[str]:
    """Return the factors of a job, without those that depend on the size of a part of a node."""
    one = lines[job.user]
    return [*one] if job.is_whole else [one.age, one.fairshare]


def order_row(name: str, orders: tuple[str, str], by_rule: tuple[str, str]) -> Row:
    """Compare the orders of waiting jobs of both sides. If they differ, each side's ages and use
    must explain its order.
    """
    theirs, ours = orders
    if theirs == ours:
        return Row(name, SAME, theirs, ours)
    is_explained = orders == by_rule
    return Row(
        name,
        ON_PURPOSE if is_explained else DIFFERS,
        theirs,
        ours,
        OTHER_TIMES if is_explained else "",
    )


def ages_row(
    name: str,
    history: FadingHistory,
    theirs: Lines,
    ours: Lines,
    expected: Mapping[str, tuple[float, float, float]],
) -> Row:
    """Compare AGE with the seconds for which jobs have waited. `expected`: for each user, the
    seconds on Slurm, and the least and the most seconds on Phalanx. PRIORITY must be the sum of the
    factors, without nice.
    """
    faults: tuple[list[str], list[str]] = [], []
    nices = {job.user: job.nice for job in history.waiting}
    for user, (exact_s, least_s, most_s) in expected.items():
        exact, least, most = (
            WEIGHT * min(max(s / MAX_AGE_S, 0.0), 1.0) for s in (exact_s, least_s, most_s)
        )
        if theirs[user].age != f"{exact:.0f}":
            faults[0].append(f"{user} AGE {theirs[user].age}, waited {exact_s:g} s")
        if not least - 1 <= float(ours[user].age) <= most + 1:
            faults[1].append(f"{user} AGE {ours[user].age}, waited {least_s:.1f} to {most_s:.1f} s")
        for lines, wrong in zip((theirs, ours), faults, strict=True):
            one = lines[user]
            parts = sum(float(part) for part in one[1:]) - nices[user]
            if not parts - 2.5 < float(one.priority) < parts + 1.5:
                wrong.append(f"{user} PRIORITY {one.priority}, the sum of factors is {parts:.0f}")
    kind = DIFFERS if any(faults) else MENDED  # --nice once had no effect
    return Row(name, kind, "\n".join(faults[0]), "\n".join(faults[1]))


def part_row(name: str, history: FadingHistory, theirs: Lines, ours: Lines) -> Row:
    """Compare the size of the jobs that take parts of nodes. In Slurm the size is the mean of two
    fractions: the job's part of all nodes, and its part of all CPUs.
    """
    jobs = [job for job in history.waiting if not job.is_whole]
    expected = [
        "\n".join(f"{job.user} {WEIGHT * part(job):.0f}" for job in jobs)
        for part in (_mean_part, _part_of_cpus)
    ]
    users = [job.user for job in jobs]
    found = [factors_text(lines, users, "size") for lines in (theirs, ours)]
    is_ruled = found == expected
    kind, why = (ON_PURPOSE, SIZE) if is_ruled else (DIFFERS, "")
    return Row(name, kind, found[0], found[1], why)


def _part_of_cpus(job: WaitingJob) -> float:
    return job.nodes * job.cpus / (NODES * CPUS)


def _mean_part(job: WaitingJob) -> float:
    return (job.nodes / NODES + _part_of_cpus(job)) / 2


def small_first_row(
    name: str,
    history: FadingHistory,
    seen: tuple[Lines, Lines],
    orders: tuple[str, str],
    by_rule: tuple[str, str],
) -> Row:
    """Compare PriorityFavorSmall=YES with a negative weight: JOBSIZE differs by the weight, and the
    order of jobs is the same.
    """
    users = whole_jobs(history)
    sizes = [[float(lines[user].size) for user in users] for lines in seen]
    is_shifted = all(
        math.isclose(there - here, WEIGHT, abs_tol=1.0) for there, here in zip(*sizes, strict=True)
    )
    row = order_row(name, orders, by_rule)
    texts = [
        f"{order}\n{factors_text(lines, users, 'size')}"
        for order, lines in zip(orders, seen, strict=True)
    ]
    if row.kind == DIFFERS or not is_shifted:
        return Row(name, DIFFERS, texts[0], texts[1])
    return Row(name, ON_PURPOSE, texts[0], texts[1], SMALL_FIRST)


def relative_row(name: str, history: FadingHistory, theirs: Lines, ours: Lines) -> Row:
    """Compare SMALL_RELATIVE_TO_TIME: Slurm divides the size by the minutes of the time limit, and
    Phalanx has no such factor.
    """
    jobs = [job for job in history.waiting if job.is_whole]
    users = [job.user for job in jobs]
    expected = "\n".join(
        f"{job.user} {WEIGHT * job.nodes / NODES / job.minutes:.0f}" for job in jobs
    )
    text = factors_text(theirs, users, "size")
    kind = ON_PURPOSE if text == expected else DIFFERS
    why = NO_TIME if kind == ON_PURPOSE else ""
    return Row(name, kind, text, factors_text(ours, users, "size"), why)
