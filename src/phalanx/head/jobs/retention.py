"""Decides how long the head keeps finished jobs. The history keeps their attempts longer. This
module is pure.

A job with its own time to live (`ttl_s`) is kept for that time.
"""

from __future__ import annotations

import msgspec

from phalanx.model.jobs.records import JobRecord
from phalanx.model.jobs.spec import JobSpec, Process

KEPT_S = 30 * 86_400.0
"""Seconds for which a finished job and its output are kept."""
KEPT = 10_000
"""The largest number of finished jobs that are kept. The job that ended first is forgotten first.
"""


class FinishedJobs:
    """The finished jobs of a head, in the order in which they ended."""

    def __init__(self) -> None:
        self._kept: dict[str, None] = {}
        self._surplus: set[str] = set()

    def add(self, uid: str) -> str | None:
        """Note that a job is over. Returns a job that must be forgotten to make room, if there is
        one.
        """
        if uid in self._kept or uid in self._surplus:
            return None
        self._kept[uid] = None
        if len(self._kept) <= KEPT:
            return None
        oldest = next(iter(self._kept))
        del self._kept[oldest]
        self._surplus.add(oldest)
        return oldest

    def is_due(self, job: JobRecord, now: float) -> bool:
        """Whether a job has been kept long enough. `now`: the wall-clock time."""
        return job.uid in self._surplus or (job.finished is not None and due_at(job) <= now)

    def forget(self, uid: str) -> None:
        """Forget a job that is gone."""
        self._kept.pop(uid, None)
        self._surplus.discard(uid)


def due_at(job: JobRecord) -> float:
    """Return the wall-clock time at which a finished job is forgotten."""
    assert job.finished is not None
    return job.finished + (KEPT_S if job.spec.ttl_s is None else job.spec.ttl_s)


def without_environment(spec: JobSpec) -> JobSpec:
    """Return a job without the environment variables of its commands. The commands will not be run
    again.
    """
    replace = msgspec.structs.replace

    def bare(processes: tuple[Process, ...]) -> tuple[Process, ...]:
        return tuple(replace(one, env=()) if one.env else one for one in processes)

    groups = tuple(
        replace(
            group,
            template=replace(
                group.template,
                processes=bare(group.template.processes),
                before=bare(group.template.before),
            ),
        )
        for group in spec.groups
    )
    return replace(spec, groups=groups)
