"""Past and remaining run times of jobs. Plugins order jobs by them, and in some orders running jobs
may be preempted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.session import Session

GPU = "nvidia.com/gpu"
Key = Callable[[Job], Any]


class Service:
    """Run times of the session's jobs in seconds, as the podgroups declare them."""

    def __init__(self, session: Session) -> None:
        self._now = session.now
        self._gpu = session.cluster.dims.index.get(GPU)

    def total_s(self, job: Job) -> float:
        """Return the job's total run time in seconds; infinite if unknown."""
        left = job.spec.run_time_s
        return float("inf") if left is None else job.spec.ran_s + left

    def attained_s(self, job: Job) -> float:
        """Return how long the job has run, in seconds."""
        started = job.spec.started
        return job.spec.ran_s + (0.0 if started is None else max(0.0, self._now - started))

    def remaining_s(self, job: Job) -> float:
        """Return the job's remaining run time in seconds; infinite if unknown."""
        left, started = job.spec.run_time_s, job.spec.started
        if left is None:
            return float("inf")
        return left if started is None else max(0.0, left - (self._now - started))

    def gpus(self, job: Job) -> float:
        """Return the number of GPUs of all tasks of the job together; 1 for a job without GPUs, so
        that only time ranks it.
        """
        asked = 0 if self._gpu is None else int(job.total_request[self._gpu])
        return asked / 1000 if asked else 1.0


def rank_jobs(session: Session, plugin: str, key: Key, *, preemptive: bool) -> None:
    """Order jobs by `key`.

    With `preemptive`, jobs with a smaller key may preempt jobs with a larger key. A job then counts
    as starving while any of its tasks waits.
    """
    session.add("job_order", plugin, key)
    if not preemptive:
        return

    def victims(preemptor: int, candidates: Sequence[int]) -> list[int]:
        mine = key(session.job(preemptor))
        known: dict[int, bool] = {}
        out = []
        for t in candidates:
            index = session.cluster.job_of[t]
            if index < 0:
                continue
            if index not in known:
                known[index] = key(session.cluster.jobs[index]) > mine
            if known[index]:
                out.append(t)
        return out

    def starving(job: Job) -> bool:
        return job.ready_count() + job.counts[j.PIPELINED] < len(job.tasks)

    session.add("preemptable", plugin, victims)
    session.add("job_starving", plugin, starving)
