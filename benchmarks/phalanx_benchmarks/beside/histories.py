"""Draws *histories* of short jobs: accounts with their users and shares, and the jobs that these
users run.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from phalanx_benchmarks.beside.share_cases import TERMS, USERS

APART = 1.7
"""The levels of two users differ at least by this factor, so that their order does not depend on
how long a short job takes to start.
"""
START_S = 0.7
"""Seconds that a short job takes in addition to its sleep; only `APART` depends on them."""
COUNTED_S = 1.0
"""The shortest sleep, in seconds, of a job whose use Slurm always counts. Slurm counts nothing for
some shorter jobs.
"""

Key = tuple[str, str]
"""An account and a user."""
Accounts = Mapping[str, tuple[int, Mapping[str, int]]]
"""The shares of each account, with the shares of each of its users."""


class ShortJob(NamedTuple):
    """A job of a history."""

    name: str
    account: str
    user: str
    cpus: int
    mib: int
    sleeps_s: float

    @property
    def rate(self) -> float:
        """Billing units a second."""
        return TERMS.rate([("cpu", self.cpus), ("memory", self.mib * 2**20)])


class History(NamedTuple):
    """Accounts with their users, and the jobs that these run."""

    accounts: dict[str, tuple[int, dict[str, int]]]
    jobs: list[ShortJob]


def drawn_history(draw: random.Random, mark: str) -> History:
    """Draw two or three accounts of two to four users, and 10 to 20 jobs of some of these users.
    The levels of users of one account are either equal or far apart. `mark` begins the names of
    accounts and jobs.
    """
    sizes = [draw.randint(2, 4) for _ in range(draw.randint(2, 3))]
    while True:
        left = draw.sample(USERS, len(USERS))
        accounts = {
            f"{mark}a{number}": (
                draw.choice((1, 2, 4)),
                {left.pop(): draw.choice((0, 1, 1, 2, 3, 5, 8)) for _ in range(size)},
            )
            for number, size in enumerate(sizes)
        }
        places = [(account, user) for account, (_, users) in accounts.items() for user in users]
        busy = draw.sample(places, len(places) - draw.randint(1, 2))
        jobs = [
            ShortJob(
                f"{mark}j{number}",
                *draw.choice(busy),
                draw.choice((1, 1, 2, 4)),
                draw.choice((10, 100, 1500)),
                round(draw.uniform(0.5, 3.0), 1),
            )
            for number in range(draw.randint(10, 20))
        ]
        if _is_apart(accounts, jobs):
            return History(accounts, jobs)


def _is_apart(accounts: Accounts, jobs: Sequence[ShortJob]) -> bool:
    """Whether each use is large enough to be counted, and all levels are far apart."""
    counted = {(job.account, job.user) for job in jobs if job.sleeps_s >= COUNTED_S}
    if counted != {(job.account, job.user) for job in jobs}:
        return False
    used = uses(jobs, {job.name: job.sleeps_s + START_S for job in jobs})
    levels = [[shares / _of(account, used) for account, (shares, _) in accounts.items()]]
    for account, (_, users) in accounts.items():
        levels.append(
            [
                shares / used[account, user]
                for user, shares in users.items()
                if shares and (account, user) in used
            ]
        )
    pairs = (pair for one in levels for pair in pairwise(sorted(one)))
    return all(high >= APART * low for low, high in pairs)


def _of(account: str, used: Mapping[Key, float]) -> float:
    """Return the use of an account. An idle account counts as having used next to nothing."""
    return sum(use for (where, _), use in used.items() if where == account) or 1e-9


def uses(jobs: Sequence[ShortJob], seconds: Mapping[str, float]) -> dict[Key, float]:
    """Return the use of each user, given the seconds for which each job ran."""
    found: dict[Key, float] = {}
    for job in jobs:
        key = job.account, job.user
        found[key] = found.get(key, 0.0) + job.rate * seconds[job.name]
    return found
