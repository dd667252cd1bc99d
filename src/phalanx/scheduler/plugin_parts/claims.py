"""Explains why no room is reclaimed from other queues for a podgroup that has no room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from phalanx.model.readable import amount, size
from phalanx.scheduler.cycle.amounts import EPSILON, within_partly
from phalanx.scheduler.cycle.cluster import Cluster
from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.plan import Rejection
from phalanx.scheduler.plugin_parts.quota_tree import QuotaNode

_SHOWN = 4
"""The largest number of queues that a reason names: those that hold the most."""


def why_nothing_is_taken_back(
    cluster: Cluster,
    nodes: Mapping[int, QuotaNode],
    job: Job,
    eq_class: EquivalenceClass,
    count: int,
    resources: Sequence[str],
) -> list[Rejection]:
    """Return, for each resource, why reclaim makes no room for `count` more tasks of the class.

    `resources`: the resources that the nodes lack. The reason is that the job's queue deserves no
    more of the resource, or that each other queue is entitled to the amount that it holds. There is
    no reason for a resource of which another queue holds more than it is entitled to.
    """
    out = []
    for name in resources:
        r = cluster.dims.index[name]
        holding = [q for q in _holding(nodes, r) if q != job.queue]
        if not holding:
            continue
        mine = nodes[job.queue]
        held, deserved = mine.account.allocated.v, mine.deserved.v
        asked = eq_class.vector * count
        is_named = bool(mine.deserved.has[r]) if cluster.dims.scalar[r] else deserved[r] >= EPSILON
        may_take = (
            held[r] + asked[r] - deserved[r] < EPSILON
            if is_named
            else within_partly(cluster.dims, held + asked, deserved, asked)
        )
        detail: dict[str, Any] = {"queue": cluster.queues[job.queue].name, "resource": name}
        if not may_take:
            numbers = {"deserved": deserved[r], "held": held[r], "asked": asked[r]}
            detail |= {k: cluster.dims.written(r, float(x)) for k, x in numbers.items()}
            out.append(Rejection(reason="deserves-no-more", detail=detail))
        elif all(_is_by_right(cluster, nodes[q], r) for q in holding):
            queues = {cluster.queues[q].name: _said(cluster, nodes[q], r) for q in holding[:_SHOWN]}
            out.append(Rejection(reason="held-by-right", detail={**detail, "queues": queues}))
    return out


def _holding(nodes: Mapping[int, QuotaNode], r: int) -> list[int]:
    """Return the queues whose work holds some of a resource, the largest amount first."""
    held = {q: n.account.allocated.v[r] for q, n in nodes.items() if n.is_leaf()}
    return sorted((q for q, x in held.items() if x >= EPSILON), key=lambda q: (-held[q], q))


def _is_by_right(cluster: Cluster, node: QuotaNode, r: int) -> bool:
    too_much = node.account.allocated.v[r] - node.deserved.v[r] >= EPSILON
    return not too_much or not cluster.queues[node.queue].reclaimable


def _said(cluster: Cluster, node: QuotaNode, r: int) -> str:
    held, deserved = (
        _readable(cluster, r, x) for x in (node.account.allocated.v[r], node.deserved.v[r])
    )
    if cluster.queues[node.queue].reclaimable:
        return f"holds {held} and deserves {deserved}"
    return f"holds {held} and is not reclaimable"


def _readable(cluster: Cluster, r: int, x: float) -> str:
    much = cluster.dims.written(r, float(x))
    return size(much) if cluster.dims.names[r] == "memory" else amount(much)
