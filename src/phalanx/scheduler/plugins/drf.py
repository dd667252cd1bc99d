"""The plugin drf: dominant resource fairness. The smallest dominant share goes first.

Source: Volcano's drf plugin. The share is the largest allocated / total of all the cluster's
resources. A task can be a victim if, without it, its job still has at least the share that the
preemptor's job would have (within 1e-6).

With hierarchy, queues are compared level by level down their paths. Saturated queues come later;
among the others, the smaller share / weight comes first. A parent's allocation is the sum of its
children's. Saturated children count fully. Each unsaturated child is first scaled down to the
smallest dominant share among the unsaturated children.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from phalanx.scheduler.cycle.accepted import Accepted
from phalanx.scheduler.cycle.amounts import EPSILON, Vector
from phalanx.scheduler.cycle.arguments import Arguments
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.rows import Change
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.plugin_parts.hierarchy import Branch, ShareTree

TOLERANCE = 1e-6


class DominantShare:
    """The plugin drf. It takes no arguments. With the switch `hierarchy`, queues form a tree."""

    name = "drf"
    accepts: ClassVar[Accepted] = {}

    def __init__(self, arguments: Arguments) -> None:
        del arguments

    def open(self, session: Session) -> None:
        self._session = session
        self._total = session.cluster.total.v
        self._of = np.flatnonzero(self._total >= EPSILON)
        self._moved: dict[int, Vector] = {}
        """The jobs that gained or lost places in this cycle, each with the amounts that it holds
        now.
        """
        self._shares: list[float | None] = [None] * len(session.cluster.jobs)
        session.add("preemptable", self.name, self._victims)
        session.add("job_order", self.name, lambda job: self.share(job.index))
        session.add("changed", self.name, self._changed)
        self._tree: ShareTree | None = None
        if session.is_on(self.name, "hierarchy"):
            self._tree = ShareTree(self._total)
            for job in session.cluster.jobs:
                self._enter(self._tree, job, self._held(job.index))
            session.add("queue_order", self.name, self._compare)
            session.add("reclaimable", self.name, self._reclaimable)

    def _held(self, job: int) -> Vector:
        moved = self._moved.get(job)
        return self._session.cluster.jobs[job].held.astype(np.float64) if moved is None else moved

    def share(self, job: int) -> float:
        known = self._shares[job]
        if known is None:
            nothing = job not in self._moved and not self._session.cluster.jobs[job].holding_count()
            known = self._shares[job] = 0.0 if nothing else self._share_of(self._held(job))
        return known

    def _share_of(self, held: Vector) -> float:
        if len(self._of) == 0:
            return 0.0
        return max(0.0, float((held[self._of] / self._total[self._of]).max()))

    def _changed(self, change: Change) -> None:
        self._moved[change.job.index] = self._held(change.job.index) + change.vector
        self._shares[change.job.index] = None
        if self._tree is not None:
            self._tree.allocated += change.vector
            self._enter(self._tree, change.job, self._held(change.job.index), new=False)

    def _victims(self, preemptor: int, candidates: Sequence[int]) -> list[int]:
        cluster = self._session.cluster
        mine = cluster.job_of[preemptor]
        own = self._share_of(self._held(mine) + cluster.eq_class[preemptor].vector)
        left: dict[int, Vector] = {}
        out = []
        for t in candidates:
            job = cluster.job_of[t]
            if job < 0:
                continue
            left[job] = left.get(job, self._held(job)) - cluster.eq_class[t].vector
            theirs = self._share_of(left[job])
            if own < theirs or abs(own - theirs) <= TOLERANCE:
                out.append(t)
        return out

    # -- hierarchy ------------------------------------------------------------------------------

    def _enter(self, tree: ShareTree, job: Job, held: Vector, *, new: bool = True) -> None:
        if new:
            tree.allocated += held
        queue = self._session.cluster.queues[job.queue]
        path = queue.hierarchy_path.split("/")
        tree.put(path, queue.hierarchy_weights.split("/"), job.uid, held, job.total_request)

    def _compare(self, left: int, right: int) -> int:
        assert self._tree is not None
        return self._compare_in(self._tree.root, left, right)

    def _compare_in(self, root: Branch, left: int, right: int) -> int:
        queues = self._session.cluster.queues
        a, b = queues[left].hierarchy_path.split("/"), queues[right].hierarchy_path.split("/")
        return root.compare(a, b)

    def _reclaimable(self, reclaimer: int, candidates: Sequence[int]) -> list[int]:
        assert self._tree is not None
        session = self._session
        cluster = session.cluster
        tree = self._tree.copy()
        mine = session.job(reclaimer)
        load = cluster.eq_class[reclaimer].vector
        tree.allocated += load
        self._enter(tree, mine, self._held(mine.index) + load, new=False)
        out = []
        for t in candidates:
            if cluster.job_of[t] < 0:
                continue
            theirs, load = session.job(t), cluster.eq_class[t].vector
            held = self._held(theirs.index)
            tree.allocated -= load
            self._enter(tree, theirs, held - load, new=False)
            if self._compare_in(tree.root, mine.queue, theirs.queue) < 0:
                out.append(t)
            tree.allocated += load
            self._enter(tree, theirs, held, new=False)
        return out
