"""The holders of the resources that a podgroup waits for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from phalanx.model.rows.explanation import Holder, Holders
from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.cluster import Cluster
from phalanx.scheduler.cycle.plan import Rejection
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.wording import resource_name

SHOWN = 5
"""The most holders that are named: those that hold most."""
_OF_QUEUES = ("queue-quota", "queue-capability")
_OF_NODES = ("resource", "no-room-yet", "promised", "gang-not-whole", "no-single-node")
_OF_THE_CYCLE = frozenset({j.PENDING, j.ALLOCATED, j.PIPELINED, j.BINDING})
"""States of a task that held nothing before the cycle."""
OTHERS = "others"
"""The namespace of amounts that are taken by work outside the snapshot's tasks."""
_SCARCE_LAST = ("pods", "memory", "cpu")
"""Resources of which holders are looked for only if no device is asked for."""


def holders(
    session: Session,
    name: str,
    because: Sequence[Rejection],
    ends: Iterable[tuple[str, float | None]],
) -> Holders | None:
    """Return the holders of what `name`, a podgroup or task, lacks for its main reasons.

    None where it lacks nothing that others hold. The session's cycle is over; the holders are those
    before it. `ends` has podgroups and the times at which something of them ends; None: unknown.
    """
    reason = next((one for one in because if one.reason in (*_OF_QUEUES, *_OF_NODES)), None)
    if reason is None:
        return None
    cluster = session.cluster
    resource = reason.detail.get("resource") or _scarcest(_asked(cluster, name))
    queues = _at_or_below(cluster, reason.detail["queue"]) if reason.reason in _OF_QUEUES else None
    held = _held(cluster, resource, queues)
    held.pop(name, None)
    ends_in_s = _ends_in_s(session.now, ends)
    queue_of = {group.uid: group.queue for group in cluster.strays}
    queue_of.update((job.uid, job.spec.queue) for job in cluster.jobs)
    order = sorted(held.items(), key=lambda one: (-one[1], one[0]))
    found = [
        Holder(
            podgroup=uid,
            queue=queue_of.get(uid, ""),
            resource=resource_name(resource),
            amount=amount,
            ends_in_s=ends_in_s.get(uid),
        )
        for uid, amount in order[:SHOWN]
    ]
    return Holders(most=found, others=len(order) - len(found)) if found else None


def _asked(cluster: Cluster, name: str) -> set[str]:
    index = cluster.job_index.get(name)
    tasks = cluster.jobs[index].tasks if index is not None else ()
    rows = tasks or [t for t, uid in enumerate(cluster.task_uid) if uid == name]
    classes = {cluster.eq_class[t].index for t in rows}
    asked = {
        resource
        for at in classes
        for resource, amount in cluster.eq_classes[at].shape.request
        if amount > 0
    }
    return asked - {"pods"}


def _scarcest(asked: set[str]) -> str:
    devices = sorted(asked.difference(_SCARCE_LAST))
    return devices[0] if devices else next((r for r in _SCARCE_LAST[::-1] if r in asked), "cpu")


def _at_or_below(cluster: Cluster, name: str) -> set[str]:
    found = {name}
    parents = {queue.name: queue.parent for queue in cluster.queues}
    while more := {own for own, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _held(cluster: Cluster, resource: str, queues: set[str] | None) -> dict[str, float]:
    """Return the held amount by podgroup, in these queues, or in all."""
    amounts = [dict(one.shape.request).get(resource, 0.0) for one in cluster.eq_classes]
    node_of, status, eq_class = cluster.node_of, cluster.status, cluster.eq_class

    def held(tasks: Iterable[int]) -> float:
        return sum(
            amounts[eq_class[t].index]
            for t in tasks
            if node_of[t] >= 0 and status[t] not in _OF_THE_CYCLE
        )

    found: dict[str, float] = {}
    for job in cluster.jobs:
        of_class = job.eq_class
        if (queues is not None and job.spec.queue not in queues) or (
            of_class is not None and not amounts[of_class.index]
        ):
            continue
        found[job.uid] = held(job.tasks)
    if queues is None:
        for t, index in enumerate(cluster.job_of) if -1 in cluster.job_of else ():
            if index < 0 and node_of[t] >= 0:
                uid = f"{cluster.tasks[t].namespace}/{cluster.tasks[t].podgroup}"
                found[uid] = found.get(uid, 0.0) + held((t,))
        found[f"{OTHERS}/"] = found.get(f"{OTHERS}/", 0.0) + cluster.held_by_others(resource)
    return {uid: amount for uid, amount in found.items() if amount > 0}


def _ends_in_s(now: float, ends: Iterable[tuple[str, float | None]]) -> dict[str, float | None]:
    """Return the seconds until all of each podgroup has ended; None if unknown."""
    found: dict[str, float | None] = {}
    for uid, end_s in ends:
        end = None if end_s is None else max(end_s - now, 0.0)
        before = found.get(uid, 0.0)
        found[uid] = None if end is None or before is None else max(end, before)
    return found
