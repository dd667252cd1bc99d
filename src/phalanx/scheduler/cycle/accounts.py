"""The sums that quotas are checked against: for each queue, the amounts that its jobs hold, that
they request, that are set aside for them, and that they hold above their minimums.
"""

from __future__ import annotations

import numpy as np

from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.amounts import Amount, Counts, Dimensions, Vector
from phalanx.scheduler.cycle.cluster import Cluster
from phalanx.scheduler.cycle.jobs import Job


class QueueAccount:
    """The sums over a queue's jobs.

    `elastic`: the amounts that jobs hold above their minimums. `inqueue`: the amounts that were set
    aside for jobs that were let in but do not hold them yet.
    """

    __slots__ = ("allocated", "elastic", "inqueue", "request")

    def __init__(self, dims: Dimensions) -> None:
        self.allocated = dims.empty()
        self.request = dims.empty()
        self.elastic = dims.empty()
        self.inqueue = dims.empty()

    def add(self, other: QueueAccount) -> None:
        """Add the sums of another account."""
        self.allocated.add(other.allocated)
        self.request.add(other.request)
        self.elastic.add(other.elastic)
        self.inqueue.add(other.inqueue)


def queue_accounts(cluster: Cluster) -> dict[int, QueueAccount]:
    """Return the account of every queue that has a job."""
    accounts = {q: QueueAccount(cluster.dims) for q in dict.fromkeys(x.queue for x in cluster.jobs)}
    waiting: dict[int, list[Counts]] = {}
    held_singly: dict[int, Counts] = {}
    """By queue: the amounts held by the jobs whose amounts `enter` adds job by job."""
    for job in cluster.jobs:
        pending = job.counts[j.PENDING]
        if job.min_resources is not None or 0 < pending < len(job.tasks):
            enter(cluster, accounts[job.queue], job)
            held_singly[job.queue] = held_singly.get(job.queue, 0) + job.held
        elif pending:
            waiting.setdefault(job.queue, []).append(job.total_request)
    for queue, account in accounts.items():
        if queue in waiting:
            account.request.add(_amount(np.sum(waiting[queue], axis=0)))
        held = _amount(cluster.held_in_queue[queue] - held_singly.get(queue, 0))
        account.allocated.add(held)
        account.request.add(held)
        account.elastic.add(held)
    return accounts


def _amount(counts: Counts) -> Amount:
    v: Vector = counts.astype(np.float64)
    return Amount(v, v > 0)


def enter(cluster: Cluster, account: QueueAccount, job: Job) -> None:
    if job.counts[j.PENDING]:
        account.request.add(pending_of(cluster, job))
    if job.holding_count():
        held = held_by(job)
        account.allocated.add(held)
        account.request.add(held)
        elastic = held if job.min_resources is None else held.excess_over(job.min_resources)
        account.elastic.add(elastic)
    if job.min_resources is not None:
        account.inqueue.add(promised_to(cluster, job))


def held_by(job: Job) -> Amount:
    """Return the amounts that the job's tasks hold at the start of the cycle."""
    return _amount(job.held)


def pending_of(cluster: Cluster, job: Job) -> Amount:
    total = cluster.dims.empty()
    times: dict[int, int] = {}
    for t in job.tasks:
        if cluster.status[t] == j.PENDING:
            index = cluster.eq_class[t].index
            times[index] = times.get(index, 0) + 1
    for index, n in times.items():
        eq_class = cluster.eq_classes[index]
        total.v += eq_class.vector * n
        total.has |= eq_class.request > 0
    return total


def promised_to(cluster: Cluster, job: Job) -> Amount:
    """Return the amounts that are set aside for a job that was let in: its minimum minus the
    amounts that it holds.

    Nothing is set aside for a job that runs with fewer tasks than its minimum.
    """
    least = job.min_resources
    waiting = job.phase == "Inqueue"
    running = job.phase == "Running" and job.holding_count() >= job.min_available
    if least is None or not (waiting or running):
        return cluster.dims.empty()
    return Amount(np.maximum(least.v - job.held, 0.0), least.has.copy())


def limitless(limit: Amount) -> Amount:
    """Return a copy of a capability in which an amount of zero of CPU or memory is infinite.

    A capability without an amount of CPU or memory has zero of it. Users then mean no limit.
    """
    out = limit.copy()
    for r in (0, 1):
        if out.v[r] <= 0:
            out.v[r] = np.inf
    return out
