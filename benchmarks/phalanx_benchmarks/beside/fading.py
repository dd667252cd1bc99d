"""Draws *histories* (accounts with users, and the jobs that these run) in which decayed use decides
the order of users. Also draws waiting jobs whose order depends on shares, age and size. Computes
the use that real Slurm and Phalanx have by their rules.

In such a history some users run jobs early, and others after about a half-life. Then each user has
one waiting job.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from phalanx_benchmarks.beside.histories import COUNTED_S, START_S, Accounts, Key, ShortJob, uses
from phalanx_benchmarks.beside.history_rows import WEIGHT, order_of_use
from phalanx_benchmarks.beside.history_runs import Spans
from phalanx_benchmarks.beside.share_cases import USERS

NODES, CPUS = 4, 4
HALF_LIFE_S = MAX_AGE_S = 60.0
"""The shortest half-life and the shortest PriorityMaxAge that Slurm knows."""
PAUSE_S = 55.0
"""Seconds between the early jobs and the late ones, in addition to two restarts of Slurm."""
LOOK_S = 66.0
"""Seconds from the first waiting job until the order is read. The first one then has its full age.
"""
_EARLY_LEFT, _LATE_LEFT = 0.40, 0.93
"""The expected parts of early and late use that are left when the late jobs have ended."""
_LEVELS_APART = 1.6
"""The least factor between the levels of two users. It is less than `_LATE_LEFT / _EARLY_LEFT`, so
that decay can turn an order around.
"""
_PRIORITIES_APART = 900.0
"""Points between the priorities of two waiting jobs; five seconds of age are 833."""
_TRIES = 100


class WaitingJob(NamedTuple):
    """A job that waits. It takes `cpus` CPUs on each of its nodes. It is submitted `at_s` seconds
    after the first job. If it was held until then, it is released at that time instead.
    """

    name: str
    user: str
    nodes: int
    cpus: int
    minutes: int
    """The time limit."""
    at_s: float
    is_held: bool
    nice: int
    """Points that are subtracted from the priority."""

    @property
    def is_whole(self) -> bool:
        """Whether the job takes whole nodes. Then Slurm's size factor is the job's part of all
        CPUs.
        """
        return self.cpus == CPUS


class FadingHistory(NamedTuple):
    """An account with its users' shares, early and late jobs, and the jobs that wait at the end."""

    account: str
    users: dict[str, int]
    early: list[ShortJob]
    late: list[ShortJob]
    waiting: list[WaitingJob]

    @property
    def accounts(self) -> Accounts:
        return {self.account: (1, self.users)}

    @property
    def jobs(self) -> list[ShortJob]:
        return [*self.early, *self.late]


def drawn_fading(draw: random.Random, mark: str) -> FadingHistory:
    """Draw an account of four to six users. The order of its users would be another one without the
    half-life, and a few seconds change neither their order nor the order of waiting jobs.
    """
    count = draw.randint(4, 6)
    while True:
        names = draw.sample(USERS, count)
        users = {name: draw.choice((1, 1, 2, 3, 5)) for name in names}
        cut = draw.randint(1, count - 2)
        early = _drawn_jobs(draw, f"{mark}e", mark, names[:cut])
        late = _drawn_jobs(draw, f"{mark}l", mark, names[cut : count - draw.randint(0, 1)])
        history = FadingHistory(mark, users, early, late, [])
        if not _is_decided_by_decay(history):
            continue
        for _ in range(_TRIES):
            waiting = _drawn_waiting(draw, mark, names)
            if _is_apart(history, waiting):
                return history._replace(waiting=waiting)


def _drawn_jobs(
    draw: random.Random, mark: str, account: str, names: Sequence[str]
) -> list[ShortJob]:
    owners = [*names, *(draw.choice(names) for _ in range(2))]
    return [
        ShortJob(
            f"{mark}{number}",
            account,
            owner,
            draw.choice((1, 2, 4)),
            draw.choice((10, 100)),
            round(draw.uniform(COUNTED_S, 3.0), 1),
        )
        for number, owner in enumerate(owners)
    ]


def expected_use(history: FadingHistory, early_left: float = _EARLY_LEFT) -> dict[Key, float]:
    """Return the expected use of each user when the late jobs have ended, and `early_left` of the
    early use is left.
    """
    found: dict[Key, float] = {}
    for jobs, left in ((history.early, early_left), (history.late, _LATE_LEFT)):
        for key, use in uses(jobs, {job.name: job.sleeps_s + START_S for job in jobs}).items():
            found[key] = found.get(key, 0.0) + use * left
    return found


def _is_decided_by_decay(history: FadingHistory) -> bool:
    """Whether all levels are far apart, and the order differs from the one without decay."""
    used = expected_use(history)
    levels = sorted(history.users[user] / use for (_, user), use in used.items())
    if any(high < _LEVELS_APART * low for low, high in pairwise(levels)):
        return False
    whole = order_of_use(history.accounts, expected_use(history, _LATE_LEFT))
    return order_of_use(history.accounts, used) != whole


def _drawn_waiting(draw: random.Random, mark: str, names: Sequence[str]) -> list[WaitingJob]:
    starts = [0.0, *sorted(round(draw.uniform(4.0, 50.0), 1) for _ in names[1:])]
    order = draw.sample(names, len(names))
    in_part, held = draw.sample(range(1, len(names)), 2)
    nice = draw.randrange(len(names))
    return [
        WaitingJob(
            f"{mark}w{number}",
            user,
            draw.randint(1, NODES),
            draw.randint(1, CPUS - 1) if number == in_part else CPUS,
            draw.choice((1, 2, 5, 60)),
            starts[number],
            number == held,
            draw.randint(100, 5000) if number == nice else 0,
        )
        for number, user in enumerate(order)
    ]


def _is_apart(history: FadingHistory, waiting: Sequence[WaitingJob]) -> bool:
    """Whether the priorities of the jobs of whole nodes are far apart, however size counts."""
    order = order_of_use(history.accounts, expected_use(history)).split()[1:]
    count = len(history.users)
    ranks = {user: count - at for at, users in enumerate(order) for user in users.split("=")}
    for sign in (1, -1):
        totals = sorted(
            WEIGHT * ranks[job.user] / (count + 1)
            + WEIGHT * min((LOOK_S - job.at_s) / MAX_AGE_S, 1.0)
            + sign * WEIGHT * job.nodes / NODES
            - job.nice
            for job in waiting
            if job.is_whole
        )
        if any(high - low < _PRIORITIES_APART for low, high in pairwise(totals)):
            return False
    return True


def use_there(jobs: Sequence[ShortJob], spans: Spans, ticks: Sequence[float]) -> dict[Key, float]:
    """Return the use by Slurm's rule at the last of `ticks`, the moments at which Slurm computed
    uses.

    Source: priority_multifactor.c of 22.05.8. After each second, 1 - 0.693 / half-life of all use
    is left. When a job or a period ends, the use of its d seconds is added as if all of it were d
    seconds old. If the job has ended within the period, its use then also decays by the whole
    period.
    """
    left = 1.0 - 0.693 / HALF_LIFE_S

    def weight(job: ShortJob) -> float:
        seconds, end = spans[job.name]
        use = 0.0
        for before, tick in pairwise(ticks):
            ran = min(end, tick) - max(end - seconds, before)
            added = ran * left**ran if ran > 0 else 0.0
            whole = left ** (tick - before)
            use = (use + added) * whole if end <= tick else use * whole + added
        return use

    return _summed(jobs, weight)


def use_here(
    jobs: Sequence[ShortJob], spans: Spans, read_at: tuple[float, float]
) -> tuple[dict[Key, float], dict[Key, float]]:
    """Return the least and the most use by Phalanx's rule, if it was read between two moments. Each
    job ran for up to a second longer than `sacct` shows.
    """
    first, last = read_at

    def integral(begin: float, end: float, now: float) -> float:
        # the mean of 2 ** -x over an interval is close to its middle, to less than 0.1 %
        return (end - begin) * math.exp2(((begin + end) / 2.0 - now) / HALF_LIFE_S)

    def least(job: ShortJob) -> float:
        seconds, end = spans[job.name]
        return integral(end - seconds, end, last)

    def most(job: ShortJob) -> float:
        seconds, end = spans[job.name]
        return integral(end - seconds, end + 1.0, first)

    return _summed(jobs, least), _summed(jobs, most)


def _summed(jobs: Sequence[ShortJob], weight: Callable[[ShortJob], float]) -> dict[Key, float]:
    found: dict[Key, float] = {}
    for job in jobs:
        key = job.account, job.user
        found[key] = found.get(key, 0.0) + job.rate * weight(job)
    return found
