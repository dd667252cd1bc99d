"""The plugin nodegroup: makes queues use, prefer or avoid groups of nodes.

Source: Volcano's nodegroup plugin. A node's group is the value of its label
volcano.sh/nodegroup-name. Nodes of groups that the queue requires, prefers or avoids pass the
filter. Nodes of groups that it must not use do not pass. Nodes of a required group score 100, and
nodes of an avoided group -1. Nodes of a preferred group score 50 or, with `enablePreferredOrder`,
50 * (n - i) / n for the i-th of n groups. With hierarchy, a queue without a declaration uses the
declaration of its nearest ancestor that has one. A queue's annotation
volcano.sh/nodegroup-resource-limits (JSON of group -> resource -> quantity) limits the amounts that
the queue's own tasks hold on a group's nodes. If the annotation cannot be read, every node is
turned away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec
import numpy as np

from phalanx.scheduler.cycle.accepted import FLAG, Accepted
from phalanx.scheduler.cycle.amounts import EPSILON, Flags, Vector
from phalanx.scheduler.cycle.arguments import Arguments, flag, quantity
from phalanx.scheduler.cycle.cluster import Cluster
from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass
from phalanx.scheduler.cycle.jobs import HOLDING
from phalanx.scheduler.cycle.rows import Ask, Change, Filter, Rows, Scorer, always, never
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.specs import GroupAffinity, QueueSpec

LABEL = "volcano.sh/nodegroup-name"
LIMITS = "volcano.sh/nodegroup-resource-limits"


class NodeGroup:
    """The plugin nodegroup. Arguments: `strict` (true), `enablePreferredOrder` (false).

    With `strict`, a queue that declares no groups may use no node, and nodes without a group take
    no tasks. Otherwise, queues without groups use nodes without a group.
    """

    name = "nodegroup"
    accepts: ClassVar[Accepted] = {"strict": FLAG, "enablePreferredOrder": FLAG}

    def __init__(self, arguments: Arguments) -> None:
        self._strict = flag(arguments, "strict", True)
        self._ordered = flag(arguments, "enablePreferredOrder", False)

    def open(self, session: Session) -> None:
        cluster = session.cluster
        groups = [labels.get(LABEL) for labels in cluster.labels]
        inherit = session.is_on(self.name, "hierarchy")

        def say(queue: int) -> GroupAffinity | None:
            seen: set[int] = set()
            while queue not in seen:
                spec = cluster.queues[queue]
                if spec.affinity is not None or not inherit or spec.name == "root":
                    return spec.affinity if _says(spec.affinity) else None
                seen.add(queue)
                queue = cluster.queue_index.get(spec.parent or "root", queue)
            return None

        def passes(rows: Rows, ask: Ask) -> Flags:
            affinity = say(ask.job.queue)
            good = {g: self._passes(affinity, g) for g in {groups[n] for n in rows.index}}
            return np.array([good[groups[n]] for n in rows.index], dtype=np.bool_)

        def score(rows: Rows, ask: Ask) -> Vector:
            affinity = say(ask.job.queue)
            if affinity is None:
                return np.zeros(len(rows))
            worth = {g: self._score(affinity, g) for g in {groups[n] for n in rows.index}}
            return np.array([worth[groups[n]] for n in rows.index], dtype=np.float64)

        session.add(
            "filter",
            self.name,
            Filter(reason="node-group", passes=passes, changes=never, scope="queue"),
        )
        session.add(
            "scorer",
            self.name,
            Scorer(name=self.name, score=score, changes=never, scope="queue"),
        )
        if any(LIMITS in dict(q.annotations) for q in cluster.queues):
            limits = GroupLimits(cluster, groups)
            session.add("changed", self.name, limits.changed)
            session.add(
                "filter",
                self.name,
                Filter(
                    reason="node-group-limit",
                    passes=limits.passes,
                    changes=always,
                    curable=True,
                    scope="queue",
                ),
            )

    def _passes(self, affinity: GroupAffinity | None, group: str | None) -> bool:
        if group is None:
            return not self._strict and affinity is None
        if affinity is None:
            return False
        good = group in affinity.required or group in affinity.preferred
        good = good and group not in affinity.anti_required
        return good or group in affinity.anti_preferred

    def _score(self, affinity: GroupAffinity, group: str | None) -> float:
        if group is None:
            return 0.0
        if group in affinity.anti_preferred:
            return -1.0
        score = 100.0 * (group in affinity.required)
        if group in affinity.preferred:
            n = len(affinity.preferred)
            at = affinity.preferred.index(group)
            score += 50.0 * (n - at) / n if self._ordered else 50.0
        return score


class GroupLimits:
    """The amounts that each queue holds on the nodes of each group, and the limits of these
    amounts.
    """

    def __init__(self, cluster: Cluster, groups: Sequence[str | None]) -> None:
        self._cluster = cluster
        self._groups = groups
        self._limits = [_limits_of(q, cluster) for q in cluster.queues]
        self._held: dict[tuple[int, str], Vector] = {}
        for t, status in enumerate(cluster.status):
            if status in HOLDING and cluster.job_of[t] >= 0:
                job = cluster.jobs[cluster.job_of[t]]
                self._add(job.queue, cluster.node_of[t], cluster.eq_class[t].vector)

    def passes(self, rows: Rows, ask: Ask) -> Flags:
        limits = self._limits[ask.job.queue]
        if limits is None:
            return np.zeros(len(rows), dtype=np.bool_)
        room = {g: self._has_room(ask.job.queue, g, ask.eq_class) for g in limits}
        return np.array([room.get(self._groups[n] or "", True) for n in rows.index], dtype=np.bool_)

    def _has_room(self, queue: int, group: str, eq_class: EquivalenceClass) -> bool:
        held = self._held.get((queue, group))
        would = eq_class.vector if held is None else held + eq_class.vector
        limits = self._limits[queue] or {}
        return all(would[r] - most < EPSILON for r, most in limits[group].items())

    def changed(self, change: Change) -> None:
        for node in change.nodes:
            self._add(change.job.queue, node, change.eq_class.vector * change.sign)

    def _add(self, queue: int, node: int, load: Vector) -> None:
        group = self._groups[node] if node >= 0 else None
        if group is not None:
            held = self._held.get((queue, group))
            self._held[queue, group] = load.copy() if held is None else held + load


def _limits_of(queue: QueueSpec, cluster: Cluster) -> Mapping[str, dict[int, float]] | None:
    """Return the limits by group and resource, in the cluster's units; None if the annotation
    cannot be read.
    """
    written = dict(queue.annotations).get(LIMITS)
    if not written:
        return {}
    try:
        table = msgspec.json.decode(written, type=dict[str, dict[str, str | float]])
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None
    dims = cluster.dims
    out: dict[str, dict[int, float]] = {}
    for group, limits in table.items():
        out[group] = {}
        for name, amount in limits.items():
            most = quantity(amount)
            if most is None:
                return None
            at = dims.index.get(name)
            if at is not None:
                out[group][at] = most * dims.scale[at]
    return out


def _says(affinity: GroupAffinity | None) -> bool:
    return affinity is not None and bool(
        affinity.required or affinity.preferred or affinity.anti_required or affinity.anti_preferred
    )
