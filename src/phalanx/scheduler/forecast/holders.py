"""Finds the work that holds the resources for which a podgroup waits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from phalanx.model.rows.explanation import Holder, Holders
from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.amounts import Flags
from phalanx.scheduler.cycle.cluster import Cluster
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.main_reasons import is_fixed
from phalanx.scheduler.cycle.node_counts import allowed_nodes, count_nodes
from phalanx.scheduler.cycle.plan import Rejection
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.wording import resource_name

SHOWN = 5
"""The largest number of holders that are named. The holders of the largest amounts are named."""
_OF_QUEUES = ("queue-quota", "queue-capability")
_OF_USERS = ("user-limit", "namespace-quota")
_OF_NODES = ("resource", "no-room-yet", "promised", "gang-not-whole", "no-single-node")
_OF_THE_CYCLE = frozenset({j.PENDING, j.ALLOCATED, j.PIPELINED, j.BINDING})
"""The states of tasks that held nothing before the cycle."""
OTHERS = "others"
"""The namespace in the names of holders that stand for work outside the snapshot's tasks."""


def holders(
    session: Session,
    name: str,
    because: Sequence[Rejection],
    ends: Iterable[tuple[str, float | None]],
) -> Holders | None:
    """Return the holders of the resource that the podgroup or task `name` lacks by its first main
    reason.

    Returns None if other work holds none of that resource, and if the podgroup or task would wait
    even after all other work had ended. The session's cycle must be over; the result has the work
    that held resources before the cycle. `ends`: podgroups, each with a time at which some of its
    tasks end, or None if the time is unknown.
    """
    reason = next((one for one in because if one.reason in _OF_ANY), None)
    if reason is None or is_fixed(because[0]):
        return None
    cluster = session.cluster
    index = cluster.job_index.get(name)
    job = None if index is None else cluster.jobs[index]
    waiting = _waiting(cluster, name, job)
    resource = reason.detail.get("resource") or _scarcest(session, waiting)
    nodes = np.ones(len(cluster.nodes), dtype=np.bool_)
    if reason.reason in _OF_NODES and waiting:
        nodes = _usable(session, waiting, resource)
    held = _held(cluster, resource, nodes, _counts(cluster, reason, job))
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


_OF_ANY = (*_OF_QUEUES, *_OF_USERS, *_OF_NODES)


def _waiting(cluster: Cluster, name: str, job: Job | None) -> list[int]:
    """Return one waiting task of each class of the podgroup or, for a task without a podgroup, the
    task itself.
    """
    if job is None:
        rows = [t for t, uid in enumerate(cluster.task_uid) if uid == name]
    else:
        rows = [t for t in job.tasks if cluster.status[t] == j.PENDING] or job.tasks
    return list({cluster.eq_class[t].index: t for t in reversed(rows)}.values())[::-1]


def _scarcest(session: Session, waiting: Sequence[int]) -> str:
    """Return the scarcest resource of the first waiting task for which one is found; cpu if none is
    found.
    """
    for t in waiting:
        if scarce := count_nodes(session, session.placer.ask(t)).scarce:
            return scarce
    return "cpu"


def _usable(session: Session, waiting: Sequence[int], resource: str) -> Flags:
    """Return a mask of the nodes that may take any of the waiting tasks that request the
    resource.
    """
    nodes = np.zeros(len(session.cluster.nodes), dtype=np.bool_)
    for t in waiting:
        if dict(session.cluster.eq_class[t].shape.request).get(resource):
            nodes |= allowed_nodes(session, session.placer.ask(t))
    return nodes


def _counts(cluster: Cluster, reason: Rejection, job: Job | None) -> Callable[[Job], bool] | None:
    """Return a function that tells whether work of a job can cause this rejection: for a quota of a
    queue, for example, whether the job is in that queue or below it.

    Returns None if all work can cause it, even work without a job.
    """
    if reason.reason in _OF_QUEUES:
        queues = _at_or_below(cluster, reason.detail["queue"])
        return lambda one: one.spec.queue in queues
    if reason.reason == "namespace-quota" and job is not None:
        namespace = job.spec.namespace
        return lambda one: one.spec.namespace == namespace
    if reason.reason == "user-limit":
        kind, _, name = reason.detail["who"].partition(" ")
        return lambda one: getattr(one.spec, kind, "") == name
    return None


def _at_or_below(cluster: Cluster, name: str) -> set[str]:
    found = {name}
    parents = {queue.name: queue.parent for queue in cluster.queues}
    while more := {own for own, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _held(
    cluster: Cluster, resource: str, nodes: Flags, counts: Callable[[Job], bool] | None
) -> dict[str, float]:
    """Return the amount that each podgroup holds on these nodes. `counts`: the test that `_counts`
    returned.
    """
    amounts = [dict(one.shape.request).get(resource, 0.0) for one in cluster.eq_classes]
    node_of, status, eq_class = cluster.node_of, cluster.status, cluster.eq_class

    def held(tasks: Iterable[int]) -> float:
        return sum(
            amounts[eq_class[t].index]
            for t in tasks
            if node_of[t] >= 0 and nodes[node_of[t]] and status[t] not in _OF_THE_CYCLE
        )

    found: dict[str, float] = {}
    for job in cluster.jobs:
        of_class = job.eq_class
        if (counts is not None and not counts(job)) or (
            of_class is not None and not amounts[of_class.index]
        ):
            continue
        found[job.uid] = held(job.tasks)
    if counts is None:
        for t, index in enumerate(cluster.job_of) if -1 in cluster.job_of else ():
            if index < 0 and node_of[t] >= 0:
                uid = f"{cluster.tasks[t].namespace}/{cluster.tasks[t].podgroup}"
                found[uid] = found.get(uid, 0.0) + held((t,))
        found[f"{OTHERS}/"] = found.get(f"{OTHERS}/", 0.0) + cluster.held_by_others(resource, nodes)
    return {uid: amount for uid, amount in found.items() if amount > 0}


def _ends_in_s(now: float, ends: Iterable[tuple[str, float | None]]) -> dict[str, float | None]:
    """Return, for each podgroup, the seconds until all of it has ended; None if unknown."""
    found: dict[str, float | None] = {}
    for uid, end_s in ends:
        end = None if end_s is None else max(end_s - now, 0.0)
        before = found.get(uid, 0.0)
        found[uid] = None if end is None or before is None else max(end, before)
    return found
