"""The plugin gang: places a job's minimum of tasks, or none of its tasks.

Source: Volcano's gang plugin. A job is valid if enough of its tasks could run: for the job's own
minimum, and for those of its roles and subgroups. It is ready when its minimum number of tasks has
room. A task may be evicted only while its job stays above the minimum. Jobs that are not ready come
first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from phalanx.scheduler.cycle.accepted import Accepted
from phalanx.scheduler.cycle.arguments import Arguments
from phalanx.scheduler.cycle.hooks import PERMIT, REJECT
from phalanx.scheduler.cycle.jobs import Job, SubJob
from phalanx.scheduler.cycle.plan import Rejection
from phalanx.scheduler.cycle.session import Session


class GangPlugin:
    """The plugin gang. It takes no arguments."""

    name = "gang"
    accepts: ClassVar[Accepted] = {}

    def __init__(self, arguments: Arguments) -> None:
        del arguments

    def open(self, session: Session) -> None:
        def spared(_: int, candidates: Sequence[int]) -> list[int]:
            ready: dict[int, int] = {}
            out = []
            for t in candidates:
                if session.cluster.job_of[t] < 0:
                    continue
                job = session.job(t)
                left = ready.setdefault(job.index, job.ready_count())
                if left > job.min_available:
                    ready[job.index] = left - 1
                    out.append(t)
            return out

        hooks: tuple[tuple[str, Any], ...] = (
            ("job_valid", _valid),
            ("preemptable", spared),
            ("reclaimable", spared),
            ("evictable", lambda _, candidates: list(candidates)),
            ("job_order", Job.is_ready),
            ("subjob_order", lambda sub: sub.is_ready()),
            ("job_ready", _ready),
            ("job_shortfall", _shortfall),
            ("subjob_ready", lambda sub: sub.is_ready()),
            ("job_pipelined", _pipelined),
            ("subjob_pipelined", _sub_pipelined),
            ("job_starving", lambda job: job.is_starving()),
        )
        for hook, fn in hooks:
            session.add(hook, self.name, fn)


def _valid(job: Job) -> Rejection | None:
    if not job.roles_valid():
        return Rejection(reason="gang-role-short", detail={"minimums": dict(job.role_min)})
    if not job.subjobs_valid():
        return Rejection(reason="gang-subgroups-short", detail={"minimums": job.min_subjobs})
    valid = job.valid_count()
    if valid < job.min_available:
        short = job.min_available - valid
        detail = {"tasks": valid, "minimum": job.min_available}
        return Rejection(reason="gang-tasks-missing", count=short, detail=detail)
    return None


def _ready(job: Job) -> bool:
    return job.is_ready() and job.roles_ready() and job.subjobs_hold(pipelined=False)


def _shortfall(job: Job) -> int:
    return job.shortfall()


def _pipelined(job: Job) -> int:
    good = job.is_pipelined() and job.roles_pipelined() and job.subjobs_hold(pipelined=True)
    return PERMIT if good else REJECT


def _sub_pipelined(sub: SubJob) -> int:
    return PERMIT if sub.is_pipelined() else REJECT
