"""The recent use of each user of a queue, and the users' order by Fair Tree's rule.

Queues declare how much each user had used by a given time (`users`: `use`, `at`). Running work is
charged from that time or from its start, and at least for the penalty. If the head keeps a usage
ledger, it lends the ledger to cycles (`shells["books"]`), so that no cycle has to read all running
work.

The rank of a user's second waiting job is computed as if the first job had started and had been
charged the penalty. The rank of the third job is computed as if the first two had, and so on. So
users take turns, and plans know the order before anything starts. The model is Kueue's entry
penalty.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from phalanx.scheduler.cycle.amounts import Vector
from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass
from phalanx.scheduler.cycle.jobs import HOLDING, PENDING, Job
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.specs import UserShare
from phalanx.scheduler.plugin_parts.billing import Terms
from phalanx.scheduler.plugin_parts.fair_tree import Member, Standing, standings
from phalanx.scheduler.plugin_parts.past_use import Use, accrued

_NOBODY = UserShare(name="")
"""The shares and usage of a user who is not in the ledger."""
BOOKS = "books"
"""The name under which the caller lends a usage ledger."""


class LentLedger(Protocol):
    """A usage ledger that the caller lends."""

    def users(self, queue: str, now: float) -> Mapping[str, UserShare]:
        """Return the users of a queue by name.

        `use`: the usage at `now`, including running work and the penalty of work that has just
        begun.
        """
        ...


class Users:
    """The users of all queues of a session, in the state at the session's start."""

    def __init__(self, session: Session, terms: Terms) -> None:
        self._session = session
        self._terms = terms
        cluster = session.cluster
        dims = cluster.dims
        self._weights: Vector = np.zeros(len(dims))
        for name, weight in terms.billing.items():
            if name in dims.index:
                at = dims.index[name]
                self._weights[at] = weight / dims.scale[at]
        self._rates: dict[int, float] = {}
        """The billing units per second of one task, by the index of the task's class."""
        lent: LentLedger | None = session.shells.get(BOOKS)
        self._users: Sequence[Mapping[str, UserShare]] = (
            self._of_snapshot()
            if lent is None
            else [lent.users(queue.name, session.now) for queue in cluster.queues]
        )
        self._standings = self._stand()

    def standing(self, job: Job) -> Standing | None:
        """Return the standing of a job among all waiting jobs of its queue; None if the job does
        not wait.
        """
        return self._standings.get(job.uid)

    def count(self, job: Job) -> int:
        """Return how many jobs are ranked in the job's queue. This is also the highest rank."""
        return self._counts[job.queue]

    def of(self, job: Job) -> UserShare:
        """Return the shares of the job's user, with the usage up to now."""
        user = job.spec.user
        return self._users[job.queue].get(user) or UserShare(name=user)

    def used(self, job: Job) -> float:
        """Return the usage of all users of the job's queue together."""
        return sum(user.use for user in self._users[job.queue].values())

    def rate(self, vector: Vector) -> float:
        """Return the billing units of these amounts."""
        return float((self._weights * vector).max(initial=0.0))

    def asked(self, job: Job) -> float:
        """Return the billing units of all waiting tasks of the job."""
        if job.eq_class is not None:
            return job.counts[PENDING] * self._rate_of(job.eq_class)
        cluster = self._session.cluster
        waiting = (t for t in job.tasks if cluster.status[t] == PENDING)
        return sum(self._rate_of(cluster.eq_class[t]) for t in waiting)

    def _rate_of(self, alike: EquivalenceClass) -> float:
        """Return the billing units of one task of this class."""
        found = self._rates.get(alike.index)
        if found is None:
            found = self._rates[alike.index] = self.rate(alike.vector)
        return found

    def _of_snapshot(self) -> list[dict[str, UserShare]]:
        cluster, now = self._session.cluster, self._session.now
        given = [{user.name: user for user in queue.users} for queue in cluster.queues]
        used = [
            {
                user.name: 0.0
                if user.at is None
                else Use(user.use, user.at).left(now, self._terms.half_life_s)
                for user in queue.users
            }
            for queue in cluster.queues
        ]
        for job in cluster.jobs:
            mine, name = used[job.queue], job.spec.user
            mine.setdefault(name, 0.0)
            if job.holding_count():
                user = given[job.queue].get(name)
                mine[name] += self._running(job, None if user is None else user.at)
        return [
            {
                name: UserShare(name=name, use=use, shares=users[name].shares)
                if name in users
                else UserShare(name=name, use=use)
                for name, use in mine.items()
            }
            for mine, users in zip(used, given, strict=True)
        ]

    def _running(self, job: Job, since: float | None) -> float:
        """Return the usage that the job's running tasks have added since the time `since`, up to
        which usage is declared. It includes the part of the penalty that a task has not used up
        yet.
        """
        cluster, now = self._session.cluster, self._session.now
        half_life_s, penalty_s = self._terms.half_life_s, self._terms.penalty_s
        out = 0.0
        for t in job.tasks:
            if cluster.status[t] not in HOLDING:
                continue
            began = next((x for x in (cluster.started[t], job.spec.started) if x is not None), now)
            counted = began if since is None else max(began, since)
            rate = self._rate_of(cluster.eq_class[t])
            ahead = max(began + penalty_s - max(now, counted), 0.0)
            out += accrued(rate, now - counted, half_life_s)
            out += rate * min(ahead, penalty_s)
        return out

    def _stand(self) -> dict[str, Standing]:
        """Return the standings of waiting jobs, queue by queue. Each job is ranked like a user who
        has the shares of the job's user.
        """
        siblings: list[list[Member]] = [[] for _ in self._users]
        ahead: dict[tuple[int, str], float] = {}
        penalty_s = self._terms.penalty_s
        for job in sorted(filter(_waits, self._session.cluster.jobs), key=_own_order):
            who = job.queue, job.spec.user
            user = self._users[job.queue].get(job.spec.user) or _NOBODY
            before = ahead.get(who, 0.0)
            siblings[job.queue].append(Member(job.uid, user.shares, user.use + before))
            ahead[who] = before + self.asked(job) * penalty_s
        self._counts = [len(mine) for mine in siblings]
        return {uid: found for mine in siblings for uid, found in standings(mine).items()}


def _waits(job: Job) -> bool:
    return job.counts[PENDING] > 0


def _own_order(job: Job) -> tuple[int, float, str]:
    """Return the sort key for the order in which the jobs of one user are ranked."""
    created = job.spec.created
    return -job.priority, -math.inf if created is None else created, job.uid
