"""The common part of two plugins: in `proportion` queues deserve amounts by their weights, and in
`capacity` they declare the amounts that they deserve.

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
    """The account of a queue, the amounts that it deserves, and the amounts that it may have. The
    computed share is kept until the account changes.
    """

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
        """Return the largest ratio allocated / deserved among the resources that the queue
        deserves.
        """
        if self._share is None:
            held, deserved = self.account.allocated.v, self.deserved.v
            of = self.deserved.positive_indexes()
            self._share = max((share(float(held[r]), float(deserved[r])) for r in of), default=0.0)
        return self._share

    def add(self, load: Vector) -> None:
        self.account.allocated.v += load
        self._share = None


def real_capabilities(cluster: Cluster) -> list[tuple[Amount, Amount]]:
    """Return each queue's real capability and guarantee. The real capability is the total minus the
    guarantees of all other queues, and at most the queue's capability.
    """
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


def admit(session: Session, job: Job, chain: Sequence[Holding], plugin: str) -> bool:
    """Return whether the quotas of the job's queue, and of all queues above it, allow the job's
    minimum. If they do not, record a refusal by `plugin` with the amounts.
    """
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
    """Return a rejection for each requested resource of which a queue exceeds its limit. `used`:
    the amounts that the queue would use, with the request.
    """
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
    """Add the minimum of a job that was let in to the accounts of its queue and of the queues above
    it.
    """
    if job.min_resources is not None:
        for node in chain:
            node.account.inqueue.add(job.min_resources)


def kept_on_trial(session: Session, plugin: str) -> bool:
    """Whether trial evictions can rely on this plugin's state, by the plugin's switches.

    As in Volcano, trials update the state only with the switch `predicate`. They do not need the
    state if neither `allocatable` nor `preemptable` is on.
    """
    used = session.is_on(plugin, "allocatable") or session.is_on(plugin, "preemptable")
    return session.is_on(plugin, "predicate") or not used
