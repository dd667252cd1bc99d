"""The limits of users in queues: how many jobs of a user may run, and how many GPUs these jobs may
hold.

Each queue states its limits in an annotation (`model.user_limits`). A limit counts the user's work
in the queue and in all queues below it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phalanx.model.user_limits import ANNOTATION, UserLimits, limits_of, read_user_limits
from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.amounts import Vector
from phalanx.scheduler.cycle.cluster import Cluster
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.plan import Rejection
from phalanx.scheduler.cycle.session import Session

GPU = "nvidia.com/gpu"
_PLACED = (j.ALLOCATED, j.BINDING, j.BOUND, j.RUNNING, j.RELEASING, j.PIPELINED)
_PLENTY = 1 << 30
Rows = Mapping[str, UserLimits]
Key = tuple[str, str]
"""A queue and a user."""


class UserRooms:
    """The room that the limits leave to each user. It shrinks while a cycle places work."""

    def __init__(self, session: Session) -> None:
        cluster = session.cluster
        self._dims = cluster.dims
        self._gpu = cluster.dims.index.get(GPU)
        self._paths: list[tuple[tuple[str, Rows], ...]] = cluster.of_queues("user-limits", _paths)
        self.is_needed = any(self._paths)
        self._running: dict[Key, int] = {}
        self._gpus: dict[Key, float] = {}
        self._places: dict[str, int] = {}
        """For each job: how many of its tasks have places."""
        for job in cluster.jobs if self.is_needed else ():
            self._move(job, sum(job.counts[status] for status in _PLACED))
            self._hold(job, job.held.astype("float64"))

    def changed(self, job: Job, count: int, vector: Vector) -> None:
        """Record that tasks of a job got places or, with a negative number, lost them."""
        self._move(job, count)
        self._hold(job, vector)

    def _move(self, job: Job, more: int) -> None:
        before = self._places.get(job.uid, 0)
        after = self._places[job.uid] = before + more
        for queue, _ in self._limited(job) if (after > 0) != (before > 0) else ():
            key = queue, job.spec.user
            self._running[key] = self._running.get(key, 0) + (1 if after > 0 else -1)

    def _hold(self, job: Job, vector: Vector) -> None:
        for queue, _ in self._limited(job) if self._gpu is not None else ():
            key = queue, job.spec.user
            self._gpus[key] = self._gpus.get(key, 0.0) + float(vector[self._gpu])

    def _limited(self, job: Job) -> list[tuple[str, UserLimits]]:
        """Return the limits that apply to the job's user, each with the queue that sets it."""
        user = job.spec.user
        return [(queue, limits_of(rows, user)) for queue, rows in self._paths[job.queue]]

    def room(self, job: Job, asked: Vector) -> int:
        """Return how many tasks with these amounts the limits still allow."""
        room = _PLENTY
        for queue, limits in self._limited(job):
            if self._is_full(queue, job, limits):
                return 0
            if limits.gpus is not None and self._gpu is not None and asked[self._gpu] > 0:
                held = self._gpus.get((queue, job.spec.user), 0.0)
                free = self._most(limits.gpus) - held
                room = min(room, int(free // float(asked[self._gpu])))
        return max(room, 0)

    def lacking(self, job: Job, asked: Vector) -> list[Rejection]:
        """Return a rejection for each limit that these amounts would exceed."""
        found = []
        for queue, limits in self._limited(job):
            who = f"user {job.spec.user} in queue {queue}"
            key = queue, job.spec.user
            if self._is_full(queue, job, limits):
                detail = {"who": who, "limit": limits.running, "running": self._running.get(key, 0)}
                found.append(Rejection(reason="user-jobs", detail=detail))
            if limits.gpus is None or self._gpu is None or not asked[self._gpu] > 0:
                continue
            would = self._gpus.get(key, 0.0) + float(asked[self._gpu])
            if would > self._most(limits.gpus):
                used: dict[str, Any] = {
                    "who": who,
                    "resource": GPU,
                    "would_use": self._dims.written(self._gpu, would),
                    "limit": limits.gpus,
                }
                found.append(Rejection(reason="user-limit", detail=used))
        return found

    def _is_full(self, queue: str, job: Job, limits: UserLimits) -> bool:
        if limits.running is None or self._places.get(job.uid, 0) > 0:
            return False
        return self._running.get((queue, job.spec.user), 0) >= limits.running

    def _most(self, gpus: float) -> float:
        assert self._gpu is not None
        return float(self._dims.amount(((GPU, gpus),)).v[self._gpu])


def _paths(cluster: Cluster) -> list[tuple[tuple[str, Rows], ...]]:
    """Return, for each queue, the queues with limits from this queue up to the root."""
    by_name = {queue.name: queue for queue in cluster.queues}
    found = []
    for queue in cluster.queues:
        rows: list[tuple[str, Rows]] = []
        seen: set[str] = set()
        at = queue.name
        while at in by_name and at not in seen:
            seen.add(at)
            written = dict(by_name[at].annotations).get(ANNOTATION, "")
            if written and (limits := _readable(written)):
                rows.append((at, limits))
            at = by_name[at].parent or "root"
        found.append(tuple(rows))
    return found


def _readable(text: str) -> Rows:
    """Return the limits in an annotation; {} for an annotation that the head would refuse."""
    try:
        return read_user_limits(text)
    except ValueError:
        return {}
