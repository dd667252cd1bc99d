"""Queues and the groups of nodes they may, should, and should not use.

Source: Volcano's nodegroup plugin. A node's group is its label volcano.sh/nodegroup-name. A group
that the queue requires or prefers passes, one it must not use fails, one it would rather not use
passes. Score: 100 required, 50 preferred (with `enablePreferredOrder` 50 * (n - i) / n for the i-th
of n), -1 rather not. With hierarchy, a queue without a say has its nearest ancestor's.
"""

from __future__ import annotations

import numpy as np

from phalanx.batch.amounts import Flags, Vector
from phalanx.batch.arguments import Arguments, flag
from phalanx.batch.rows import Ask, Filter, Rows, Scorer, never
from phalanx.batch.session import Session
from phalanx.batch.specs import GroupAffinity

LABEL = "volcano.sh/nodegroup-name"


class NodeGroup:
    """`strict` true: a queue without a say may use no node, and nodes without a group take no one;
    false: they find each other. `enablePreferredOrder` false."""

    name = "nodegroup"

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
                    return spec.affinity
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
