"""Rows of jobs with their present times. The head sends a row only when a job has changed, although
the job's times grow all the time.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from phalanx.model.rows.work import JobInfo


def is_running(job: JobInfo) -> bool:
    """Whether the time that a job has run still grows."""
    if job.finished is not None:
        return False
    return job.started is not None if job.array else bool(job.running)


def ran_s(job: JobInfo) -> float:
    """Return the seconds for which a job had run when its row was made. For an array, they go from
    the start of its first array task to the end of the array.
    """
    if not job.array or job.started is None:
        return job.ran_s
    end = job.submitted + job.age_s if job.finished is None else job.finished
    return max(end - job.started, 0.0)


def current(jobs: Iterable[JobInfo], now: float) -> list[JobInfo]:
    """Return these rows with each job's age and run time at `now`, in seconds since the epoch."""
    return [_current(job, now) for job in jobs]


def _current(job: JobInfo, now: float) -> JobInfo:
    age_s = now - job.submitted
    grows = is_running(job) and not job.array
    run_s = job.ran_s + max(age_s - job.age_s, 0.0) if grows else job.ran_s
    return msgspec.structs.replace(job, age_s=age_s, ran_s=run_s)
