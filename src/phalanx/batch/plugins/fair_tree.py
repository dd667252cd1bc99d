"""Among the users of a queue, who used less of their shares lately goes first.

Order: Fair Tree's ranks (plugin_parts.fair_tree), then the plugins that follow, and age. A user's
second waiting job counts as if the first had begun, and so on, each for `penalty`, after Kueue's
entry penalty: so users take turns, and the order is known before anything starts, for plans too.
Between queues it decides nothing.

Use is billing units times seconds, forgotten by halves. A task's billing is the largest of weight
times amount over its resources, after Slurm's MAX_TRES; where it is placed changes nothing. Queues
tell what their users had used at a time (`users`: `use`, `at`), with all that ran before then; what
runs counts from then on, or from its start, and at least for `penalty`.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from phalanx.batch.accepted import DURATION, NUMBER, Accepted
from phalanx.batch.amounts import Vector
from phalanx.batch.arguments import Arguments, number, seconds, table
from phalanx.batch.jobs import HOLDING, PENDING, Job
from phalanx.batch.plugin_parts.fair_tree import Member, standings
from phalanx.batch.plugin_parts.past_use import Use, accrued
from phalanx.batch.session import Session

HALF_LIFE_S = 7 * 86400.0
PENALTY_S = 300.0


class FairTree:
    """`halfLife` 168h; `penalty` 5m; `billing`, weights by resource: {cpu: 1} without it."""

    name = "fair-tree"
    accepts: ClassVar[Accepted] = {
        "halfLife": DURATION,
        "penalty": DURATION,
        "billing": {"*": NUMBER},
    }

    def __init__(self, arguments: Arguments) -> None:
        self._half_life_s = seconds(arguments.get("halfLife")) or HALF_LIFE_S
        self._penalty_s = seconds(arguments.get("penalty")) or PENALTY_S
        given = table(arguments, "billing")
        self._billing = {name: max(number(given, name, 0.0), 0.0) for name in given} or {"cpu": 1.0}

    def open(self, session: Session) -> None:
        self._session = session
        dims = session.cluster.dims
        self._weights: Vector = np.zeros(len(dims))
        for name, weight in self._billing.items():
            if name in dims.index:
                at = dims.index[name]
                self._weights[at] = weight / dims.scale[at]
        self._users = [
            {user.name: user for user in queue.users} for queue in session.cluster.queues
        ]
        self._used: list[dict[str, float]] = [
            {
                user.name: 0.0
                if user.at is None
                else Use(user.use, user.at).left(session.now, self._half_life_s)
                for user in queue.users
            }
            for queue in session.cluster.queues
        ]
        for job in session.cluster.jobs:
            used = self._used[job.queue]
            used.setdefault(job.spec.user, 0.0)
            if job.holding_count():
                used[job.spec.user] += self._running(job)
        ranks = self._ranks()
        session.add("job_order", self.name, lambda job: -ranks.get(job.uid, 0))

    def _rate(self, vector: Vector) -> float:
        """Billing units of one task."""
        return float((self._weights * vector).max(initial=0.0))

    def _running(self, job: Job) -> float:
        """What the job's tasks that run have used since its user's books were kept."""
        cluster, now = self._session.cluster, self._session.now
        user = self._users[job.queue].get(job.spec.user)
        since = None if user is None else user.at
        out = 0.0
        for t in job.tasks:
            if cluster.status[t] not in HOLDING:
                continue
            began = next((x for x in (cluster.started[t], job.spec.started) if x is not None), now)
            counted = began if since is None else max(began, since)
            rate = self._rate(cluster.eq_class[t].vector)
            ahead = max(began + self._penalty_s - max(now, counted), 0.0)
            out += accrued(rate, now - counted, self._half_life_s)
            out += rate * min(ahead, self._penalty_s)
        return out

    def _ranks(self) -> dict[str, int]:
        """Ranks of the jobs that wait, each a sibling with its user's shares, by queue."""
        siblings: list[list[Member]] = [[] for _ in self._used]
        ahead: dict[tuple[int, str], float] = {}
        for job in sorted(filter(_waits, self._session.cluster.jobs), key=_own_order):
            who = job.queue, job.spec.user
            user = self._users[job.queue].get(job.spec.user)
            use = self._used[job.queue][job.spec.user] + ahead.get(who, 0.0)
            shares = 1.0 if user is None else user.shares
            siblings[job.queue].append(Member(job.uid, shares, use))
            ahead[who] = ahead.get(who, 0.0) + self._asked(job) * self._penalty_s
        return {
            uid: standing.rank for mine in siblings for uid, standing in standings(mine).items()
        }

    def _asked(self, job: Job) -> float:
        """Billing units of the job's tasks that wait."""
        cluster = self._session.cluster
        if job.eq_class is not None:
            return job.counts[PENDING] * self._rate(job.eq_class.vector)
        waiting = (t for t in job.tasks if cluster.status[t] == PENDING)
        return sum(self._rate(cluster.eq_class[t].vector) for t in waiting)


def _waits(job: Job) -> bool:
    return job.counts[PENDING] > 0


def _own_order(job: Job) -> tuple[int, float, str]:
    """In which order a user's own jobs are counted."""
    created = job.spec.created
    return -job.priority, -math.inf if created is None else created, job.uid
