"""The plugin task-topology: places tasks of certain roles together or apart, as their job requests.

Source: Volcano's task-topology plugin. Tasks are packed into buckets by the annotations
volcano.sh/task-topology-affinity, -anti-affinity (groups of roles: "ps,worker;ps") and -task-order.
The strength of a role's wish is 4 if its own tasks must be apart, 3 if they must be with another
role, 2 if its own tasks must be together, and 1 if they must be apart from another role. The
fullest bucket goes first. The score of a node is 100 * weight / largest bucket * (tasks of the
bucket on the node - anti-affine tasks on the node + tasks of the bucket that still fit there).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.accepted import WHOLE, Accepted
from phalanx.scheduler.cycle.amounts import Vector
from phalanx.scheduler.cycle.arguments import Arguments, whole
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.rows import Ask, Change, Rows, Scorer, always
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.plugin_parts.buckets import Bucket, Buckets, Wishes, wishes_of


class TaskTopology:
    """The plugin task-topology. Argument: `task-topology.weight` (1)."""

    name = "task-topology"
    accepts: ClassVar[Accepted] = {"task-topology.weight": WHOLE}

    def __init__(self, arguments: Arguments) -> None:
        self._weight = whole(arguments, "task-topology.weight", 1)

    def open(self, session: Session) -> None:
        self._session = session
        self._buckets: dict[int, Buckets] = {}
        for job in session.cluster.jobs:
            wishes = self._wishes(job) if job.counts[j.PENDING] else None
            if wishes is not None:
                self._buckets[job.index] = Buckets(session.cluster, job, wishes)
        if not self._buckets:
            return
        session.add("task_order", self.name, self._key)
        session.add("changed", self.name, self._changed)
        session.add(
            "scorer",
            self.name,
            Scorer(name=self.name, score=self._score, changes=always, scope="task"),
        )

    def _wishes(self, job: Job) -> Wishes | None:
        cluster = self._session.cluster
        roles = {cluster.eq_class[t].shape.role for t in job.tasks}
        for t in job.tasks:
            parts = cluster.tasks[t].name.split("-")
            roles.update(parts[-2:-1])
        return wishes_of(dict(job.spec.annotations), roles)

    def _key(self, t: int) -> tuple[Any, ...]:
        buckets = self._buckets.get(self._session.cluster.job_of[t])
        bucket = buckets.of(t) if buckets is not None else None
        if buckets is None or bucket is None:
            return (1, 0, 0, 0, 0)
        return (0, -len(bucket.tasks), bucket.index, *buckets.role_key(t))

    def _changed(self, change: Change) -> None:
        buckets = self._buckets.get(change.job.index)
        if buckets is not None:
            for t, node in zip(change.tasks, change.nodes, strict=True):
                buckets.moved(t, node, change.sign)

    def _score(self, rows: Rows, ask: Ask) -> Vector:
        buckets = self._buckets.get(ask.job.index)
        bucket = buckets.of(ask.task) if buckets is not None else None
        if buckets is None or bucket is None:
            return np.zeros(len(rows))
        scores = [self._on_node(buckets, bucket, ask, int(n)) for n in rows.index]
        return np.array(scores, dtype=np.float64) * (100.0 * self._weight / buckets.largest)

    def _on_node(self, buckets: Buckets, bucket: Bucket, ask: Ask, node: int) -> int:
        cluster = self._session.cluster
        room = cluster.idle[node] + cluster.releasing[node]
        if bool((room < ask.eq_class.request).any()):
            return 0
        score = bucket.on_node.get(node, 0)
        score += min(0, buckets.repulsion(ask.eq_class.shape.role, node))
        score += len(bucket.tasks)
        left = bucket.request.copy()
        for t in sorted(bucket.tasks):
            if bool((left <= room).all()):
                break
            if t != ask.task:
                left -= cluster.eq_class[t].request
                score -= 1
        return score
