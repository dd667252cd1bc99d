"""What the quotas of queues have in common, whether parts are deserved by weight or by right.

Source: Volcano's proportion and capacity plugins.
"""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.scheduler.cycle.accounts import QueueAccount, limitless
from phalanx.scheduler.cycle.amounts import Amount, Vector, over_requested, share
from phalanx.scheduler.cycle.cluster import Cluster
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.plan import Rejection
from phalanx.scheduler.cycle.session import Session


class Holding:
    """A queue's account beside what it deserves and may have; its share is kept until it moves."""

    def __init__(
        self,
        *,
        queue: int,
        account: QueueAccount,
        real_capability: Amount,
        deserved: Amount,
        guarantee: Amount,
    ) -> None:
        self.queue = queue
        self.account = account
        self.real_capability = real_capability
        self.deserved = deserved
        self.guarantee = guarantee
        self._share: float | None = None

    def share(self) -> float:
        """max of allocated / deserved, over what is deserved."""
        if self._share is None:
            held, deserved = self.account.allocated.v, self.deserved.v
            of = self.deserved.named()
            self._share = max((share(float(held[r]), float(deserved[r])) for r in of), default=0.0)
        return self._share

    def add(self, load: Vector) -> None:
        self.account.allocated.v += load
        self._share = None


def real_capabilities(cluster: Cluster) -> list[tuple[Amount, Amount]]:
    """(total - all guarantees + its own, at most its capability; its guarantee) of every queue."""
    dims = cluster.dims
    guarantees = [dims.amount(q.guarantee) for q in cluster.queues]
    promised = dims.empty()
    for guarantee in guarantees:
        promised.add(guarantee)
    out = []
    for queue, guarantee in zip(cluster.queues, guarantees, strict=True):
        limit = cluster.total.excess_over(promised).add(guarantee)
        if queue.capability:
            limit.cap(limitless(dims.amount(queue.capability)), missing_is_zero=False)
        out.append((limit, guarantee))
    return out


def may_enter(session: Session, job: Job, chain: Sequence[Holding], plugin: str) -> bool:
    """Whether its queue and the queues above it may all use as much as the job's minimum; else says
    by how much it is too much, in the name of `plugin`."""
    least = job.min_resources
    if least is None:
        return True
    for node in chain:
        account = node.account
        used = least.v + account.allocated.v + account.inqueue.v - account.elastic.v
        over = above(
            session.cluster, "queue-capability", node.queue, used, node.real_capability.v, least.v
        )
        for rejection in over:
            session.refuse(job, rejection, plugin)
        if over:
            return False
    return True


def above(
    cluster: Cluster, reason: str, queue: int, used: Vector, limit: Vector, request: Vector
) -> list[Rejection]:
    """For each requested resource in which a queue would use more than its limit, by how much."""
    dims = cluster.dims
    return [
        Rejection(
            reason=reason,
            detail={
                "queue": cluster.queues[queue].name,
                "resource": dims.names[r],
                "used": dims.written(r, max(0.0, float(used[r] - request[r]))),
                "asked": dims.written(r, float(request[r])),
                "would_use": dims.written(r, float(used[r])),
                "limit": dims.written(r, float(limit[r])),
            },
        )
        for r in over_requested(dims, used, limit, request)
    ]


def set_aside(job: Job, chain: Sequence[Holding]) -> None:
    """Count the minimum of a job that was let in, whoever let it, in its queue and those above."""
    if job.min_resources is not None:
        for node in chain:
            node.account.inqueue.add(job.min_resources)


def kept_on_trial(session: Session, plugin: str) -> bool:
    """Trying evictions out reads a state that is kept only while the predicate hook is on."""
    used = session.is_on(plugin, "allocatable") or session.is_on(plugin, "preemptable")
    return session.is_on(plugin, "predicate") or not used
