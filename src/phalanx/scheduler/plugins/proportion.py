"""The plugin proportion: queues share the cluster by weight, but get no more than they ask for.

Source: Volcano's proportion plugin. Deserved amounts are computed in rounds. In each round, each
queue that is not content yet gets remaining * weight / the sum of these queues' weights. Its amount
is then reduced to its real capability and to its request, and raised to its guarantee. The real
capability is the total, minus all guarantees, plus the queue's own guarantee, and at most its
capability. A queue is content once its request is covered, or once a round gave it nothing. The
share is the largest allocated / deserved of all resources. The `deserved` that a queue declares is
not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from phalanx.scheduler.cycle.accepted import Accepted
from phalanx.scheduler.cycle.accounts import queue_accounts
from phalanx.scheduler.cycle.amounts import Amount, Vector, fits_how_often, over_requested
from phalanx.scheduler.cycle.arguments import Arguments
from phalanx.scheduler.cycle.cluster import Cluster
from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass
from phalanx.scheduler.cycle.hooks import PERMIT, REJECT
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.plan import Rejection
from phalanx.scheduler.cycle.rows import Change
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.plugin_parts.quotas import (
    Holding,
    above,
    admit,
    kept_on_trial,
    real_capabilities,
    set_aside,
)


class Proportion:
    """The plugin proportion. It takes no arguments."""

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
            ("queue_room", self._room),
            ("shortage", self._shortage),
            ("quotas", self._quotas),
            ("preemptive", self._preemptive),
            ("job_enqueueable", self._enqueueable),
            ("job_enqueued", self._enqueued),
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
                held.v -= self._cluster.eq_class[t].vector
                out.append(t)
        return out

    def _overused(self, queue: int) -> bool:
        entry = self.entries[queue]
        return entry.deserved.less_equal(entry.account.allocated)

    def _room(self, queue: int, eq_class: EquivalenceClass) -> int:
        if self._cluster.queues[queue].state != "Open":
            return 0
        entry = self.entries[queue]
        return fits_how_often(entry.account.allocated.v, entry.deserved.v, eq_class.under_quota)

    def _shortage(
        self, queue: int, _: Job, eq_class: EquivalenceClass, count: int
    ) -> list[Rejection]:
        entry = self.entries[queue]
        used = entry.account.allocated.v + eq_class.vector * count
        return above(
            self._cluster, "queue-quota", queue, used, entry.deserved.v, eq_class.vector * count
        )

    def _quotas(self, queue: int) -> list[tuple[str, Vector]]:
        """Return, as the only quota, the amounts that are left of the queue's real capability. The
        deserved amount is no quota here, because it changes with the requests of other queues.
        """
        entry = self.entries[queue]
        return [(f"{self.name}/{queue}", entry.real_capability.v - entry.account.allocated.v)]

    def _preemptive(self, queue: int, request: Vector) -> bool:
        if self._cluster.queues[queue].state != "Open":
            return False
        entry = self.entries[queue]
        used = entry.account.allocated.v + request
        return not over_requested(self._cluster.dims, used, entry.deserved.v, request)

    def _enqueueable(self, job: Job) -> int:
        queue = self._cluster.queues[job.queue]
        if queue.state != "Open":
            closed = Rejection(reason="queue-closed", detail={"queue": queue.name})
            self._session.refuse(job, closed, self.name)
            return REJECT
        may = admit(self._session, job, [self.entries[job.queue]], self.name)
        return PERMIT if may else REJECT

    def _enqueued(self, job: Job) -> None:
        set_aside(job, [self.entries[job.queue]])

    def _dry_run(self, _: int) -> bool:
        return kept_on_trial(self._session, self.name)

    def _changed(self, change: Change) -> None:
        self.entries[change.job.queue].add(change.vector)


def _entries(cluster: Cluster) -> dict[int, Holding]:
    """Return the account and the limits of each queue that has a job; the deserved amounts are
    still zero. Queues are in order, so that sums are always rounded in the same way.
    """
    limits = real_capabilities(cluster)
    return {
        queue: Holding(
            queue=queue,
            account=account,
            real_capability=limits[queue][0],
            deserved=cluster.dims.empty(),
            guarantee=limits[queue][1],
        )
        for queue, account in sorted(queue_accounts(cluster).items())
    }


def _fill(cluster: Cluster, entries: dict[int, Holding]) -> None:
    """Distribute the cluster in rounds until nothing is left or no queue takes more."""
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
            e.deserved = e.deserved.maximum(e.guarantee)
            if e.account.request.less_equal(e.deserved) or e.deserved.same(old):
                content.add(e.queue)
            more.add(e.deserved.excess_over(old))
            less.add(old.excess_over(e.deserved))
        remaining = remaining.add(less).excess_over(more)
        if remaining.is_empty() or bool((remaining.v == before.v).all()):
            return
