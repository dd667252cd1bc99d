"""Compares the order of several waiting jobs of each user, before and after one of them starts:
what real Slurm's `sprio` and Phalanx's print.

In Slurm all jobs of a user have the same FairShare, so they follow each other. Here a user's second
job counts as if the first had run for the penalty, so users take turns. With a penalty of next to
nothing, both orders are equal, except for users without any use.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from phalanx.scheduler.plugin_parts.fair_tree import Member, standings
from phalanx_benchmarks.beside.histories import Accounts, ShortJob
from phalanx_benchmarks.beside.history_rows import WEIGHT, Users
from phalanx_benchmarks.beside.rows import DIFFERS, ON_PURPOSE, SAME, Row

NO_PENALTY_S, USUAL_PENALTY_S = 0.001, 300.0
TAKE_TURNS = "a user's second job counts as if the first one had run, so users take turns"
OTHER_USE = "each side has the order of its rule for its own use, as jobs ran for other times"
_LASTS_S = 90.0
"""Seconds for which each job would run: longer than a comparison takes. The jobs are cancelled."""


class Waiting(NamedTuple):
    """A line of `sprio -l -h`, as far as this comparison needs it."""

    job: str
    user: str
    priority: int
    fairshare: str


def drawn_turns(draw: random.Random, accounts: Accounts) -> list[ShortJob]:
    """Draw an account, and two or three jobs of each of its users, in the order of submission. Each
    job takes a node.
    """
    account = draw.choice(sorted(accounts))
    jobs = [
        ShortJob(f"{account}-{user}-{number}", account, user, 4, 0, _LASTS_S)
        for user in accounts[account][1]
        for number in range(draw.randint(2, 3))
    ]
    draw.shuffle(jobs)
    return jobs


def waiting(text: str, names: Mapping[str, str] | None = None) -> list[Waiting]:
    """Read lines of `sprio -l -h`. `names`: the names of jobs by their numbers, for Slurm's lines,
    which are sorted here by priority and number.
    """
    rows = [line.split() for line in text.splitlines()]
    if names is not None:
        rows.sort(key=lambda row: (-int(row[3]), int(row[0])))
        rows = [[names[row[0]], *row[1:]] for row in rows]
    return [Waiting(row[0], row[2], int(row[3]), row[7]) for row in rows]


def there(jobs: Sequence[ShortJob], users: Users) -> list[Waiting]:
    """Return these waiting jobs in the order of Slurm's rule. `jobs` are in the order of
    submission.
    """
    found = []
    for job in jobs:
        fairshare = users[job.account, job.user].fairshare * WEIGHT
        priority = max(int(fairshare + 0.01), 1)
        found.append(Waiting(job.name, job.user, priority, f"{fairshare:.0f}"))
    return sorted(found, key=lambda one: -one.priority)


def here(jobs: Sequence[ShortJob], users: Users, penalty_s: float) -> list[Waiting]:
    """Return these waiting jobs in the order of Phalanx's rule. `jobs` are in the order of
    submission.
    """
    ahead: dict[str, float] = {}
    members = []
    for job in jobs:
        user, before = users[job.account, job.user], ahead.get(job.user, 0.0)
        members.append(Member(job.name, float(user.shares), user.use + before))
        ahead[job.user] = before + job.rate * penalty_s
    found = []
    for job in jobs:
        fairshare = standings(members)[job.name].rank / len(jobs) * WEIGHT
        priority = max(int(fairshare + 0.01), 1)
        found.append(Waiting(job.name, job.user, priority, f"{fairshare:.0f}"))
    return sorted(found, key=lambda one: -one.priority)


def order_text(found: Sequence[Waiting]) -> str:
    """Return the waiting jobs in their order, by name."""
    return " ".join(one.job for one in found)


def turn_row(
    name: str,
    seen: tuple[Sequence[Waiting], Sequence[Waiting]],
    by_rule: tuple[Sequence[Waiting], Sequence[Waiting]],
    why: str,
) -> Row:
    """Compare the orders of both sides. The numbers of each side must be those that its own rule
    gives for its own use. If they are, `why` is the reason why the orders may differ.
    """
    theirs, ours = (order_text(one) for one in seen)
    faults = [
        "\n".join(
            f"{shown.job} PRIORITY {shown.priority} FAIRSHARE {shown.fairshare}, by rule"
            f" {ruled.job} {ruled.priority} {ruled.fairshare}"
            for shown, ruled in zip(shown_side, ruled_side, strict=True)
            if shown != ruled
        )
        for shown_side, ruled_side in zip(seen, by_rule, strict=True)
    ]
    if any(faults):
        return Row(name, DIFFERS, f"{theirs}\n{faults[0]}".strip(), f"{ours}\n{faults[1]}".strip())
    if theirs == ours:
        return Row(name, SAME, theirs, ours)
    return Row(name, ON_PURPOSE, theirs, ours, why)
