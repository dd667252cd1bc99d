"""Queues share the cluster by weight, and take no more than they ask for.

Source: Volcano's proportion plugin. What a queue deserves is found by filling up in rounds:
deserved += remaining * weight / sum of weights of queues not yet content; cut to its real
capability (total - all guarantees + its own, at most its capability), then to its request, raised
to its guarantee; a queue is content when its request is covered or a round gave it nothing. Share
is max over resources of allocated / deserved. `deserved` of the queue itself is not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from phalanx.batch.accepted import Accepted
from phalanx.batch.accounts import QueueAccount, limitless, queue_accounts
from phalanx.batch.amounts import Amount, Vector, fits_how_often, over_requested, share
from phalanx.batch.arguments import Arguments
from phalanx.batch.cluster import Cluster
from phalanx.batch.hooks import PERMIT, REJECT
from phalanx.batch.jobs import Job
from phalanx.batch.klass import Klass
from phalanx.batch.plan import Rejection
from phalanx.batch.session import Session


class Entry:
    """A queue's account with what it deserves and may have."""

    def __init__(self, queue: int, account: QueueAccount, limit: Amount, guarantee: Amount) -> None:
        self.queue = queue
        self.account = account
        self.real_capability = limit
        self.guarantee = guarantee
        self.deserved = Amount(account.allocated.v * 0.0, limit.has & False)
        self.deserved.has[:2] = True
        self._share: float | None = None

    def share(self) -> float:
        if self._share is None:
            held, deserved = self.account.allocated.v, self.deserved.v
            of = self.deserved.named()
            self._share = max((share(float(held[r]), float(deserved[r])) for r in of), default=0.0)
        return self._share

    def add(self, load: Vector) -> None:
        self.account.allocated.v += load
        self._share = None


class Proportion:
    """No arguments."""

    name = "proportion"
    accepts: ClassVar[Accepted] = {}

    def __init__(self, arguments: Arguments) -> None:
        del arguments

    def open(self, session: Session) -> None:
        self._session = session
        self._cluster = session.cluster
        self.entries = _entries(session.cluster)
        _fill(session.cluster, self.entries)
        hooks: tuple[tuple[str, Any], ...] = (
            ("queue_order", self._compare),
            ("reclaimable", self._victims),
            ("overused", self._overused),
            ("room", self._room),
            ("preemptive", self._preemptive),
            ("job_enqueueable", self._enqueueable),
            ("dry_run", self._dry_run),
            ("changed", self._changed),
        )
        for hook, fn in hooks:
            session.add(hook, self.name, fn)

    def _compare(self, left: int, right: int) -> int:
        queues = self._cluster.queues
        if queues[left].priority != queues[right].priority:
            return queues[right].priority - queues[left].priority
        a, b = self.entries[left].share(), self.entries[right].share()
        return (a > b) - (a < b)

    def _victims(self, _: int, candidates: Sequence[int]) -> list[int]:
        left: dict[int, Amount] = {}
        out = []
        for t in candidates:
            if self._cluster.job_of[t] < 0:
                continue
            entry = self.entries[self._session.job(t).queue]
            held = left.setdefault(entry.queue, entry.account.allocated.copy())
            if not held.less_equal(entry.deserved):
                held.v -= self._cluster.klass[t].vector
                out.append(t)
        return out

    def _overused(self, queue: int) -> bool:
        entry = self.entries[queue]
        return entry.deserved.less_equal(entry.account.allocated)

    def _room(self, queue: int, _: Job, klass: Klass) -> int:
        if self._cluster.queues[queue].state != "Open":
            return 0
        entry = self.entries[queue]
        return fits_how_often(
            self._cluster.dims, entry.account.allocated.v, entry.deserved.v, klass.vector
        )

    def _preemptive(self, queue: int, request: Vector) -> bool:
        if self._cluster.queues[queue].state != "Open":
            return False
        entry = self.entries[queue]
        used = entry.account.allocated.v + request
        return not over_requested(self._cluster.dims, used, entry.deserved.v, request)

    def _enqueueable(self, job: Job) -> int:
        if self._cluster.queues[job.queue].state != "Open":
            self._session.refuse(job, Rejection(reason="queue-closed"))
            return REJECT
        if job.min_resources is None:
            return PERMIT
        entry = self.entries[job.queue]
        account, dims, least = entry.account, self._cluster.dims, job.min_resources.v
        used = least + account.allocated.v + account.inqueue.v - account.elastic.v
        over = over_requested(dims, used, entry.real_capability.v, least)
        for r in over:
            self._session.refuse(
                job,
                Rejection(
                    reason="queue-capability",
                    detail={
                        "resource": dims.names[r],
                        "would_use": dims.written(r, float(used[r])),
                        "limit": dims.written(r, float(entry.real_capability.v[r])),
                    },
                ),
            )
        if over:
            return REJECT
        account.inqueue.add(job.min_resources)
        return PERMIT

    def _dry_run(self, _: int) -> bool:
        """Trying evictions out reads a state that is kept only while the predicate hook is on."""
        on = self._session.is_on
        used = on(self.name, "allocatable") or on(self.name, "preemptable")
        return on(self.name, "predicate") or not used

    def _changed(
        self, job: Job, klass: Klass, tasks: Sequence[int], nodes: Sequence[int], sign: int
    ) -> None:
        self.entries[job.queue].add(klass.vector * (len(tasks) * sign))


def _entries(cluster: Cluster) -> dict[int, Entry]:
    dims = cluster.dims
    guarantees = [dims.amount(q.guarantee) for q in cluster.queues]
    promised = dims.empty()
    for g in guarantees:
        promised.add(g)
    entries = {}
    for queue, account in queue_accounts(cluster).items():
        limit = cluster.total.excess_over(promised).add(guarantees[queue])
        capability = cluster.queues[queue].capability
        if capability:
            limit.cap(limitless(dims.amount(capability)), missing_is_zero=False)
        entries[queue] = Entry(queue, account, limit, guarantees[queue])
    return entries


def _fill(cluster: Cluster, entries: dict[int, Entry]) -> None:
    """Hand out the cluster in rounds until nothing is left or nobody takes more."""
    remaining = cluster.total.copy()
    content: set[int] = set()
    while True:
        open_entries = [e for q, e in entries.items() if q not in content]
        weights = sum(cluster.queues[e.queue].weight for e in open_entries)
        if weights == 0:
            return
        before = remaining.copy()
        more, less = cluster.dims.empty(), cluster.dims.empty()
        for e in open_entries:
            old = e.deserved.copy()
            e.deserved.add(remaining.scaled(cluster.queues[e.queue].weight / weights))
            e.deserved.cap(e.real_capability, missing_is_zero=False)
            e.deserved.cap(e.account.request, missing_is_zero=True)
            e.deserved = e.deserved.raise_to(e.guarantee)
            if e.account.request.less_equal(e.deserved) or e.deserved.same(old):
                content.add(e.queue)
            more.add(e.deserved.excess_over(old))
            less.add(old.excess_over(e.deserved))
        remaining = remaining.add(less).excess_over(more)
        if remaining.is_empty() or bool((remaining.v == before.v).all()):
            return
