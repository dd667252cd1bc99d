"""Rows of jobs, with times that are computed for the present. The head sends the row of a job only
when the job has changed, although the job's age and run time grow all the time.
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
    """Return the seconds for which a job had run when its row was made. For an array, they are
    counted from the start of its first array task until the array ended, or until the row was made.
    """
    if not job.array or job.started is None:
        return job.ran_s
    end = job.submitted + job.age_s if job.finished is None else job.finished
    return max(end - job.started, 0.0)


def current(jobs: Iterable[JobInfo], now: float) -> list[JobInfo]:
    """Return the rows with the age and the run time that each job has at `now`, in seconds since
    the epoch.
    """
    return [_current(job, now) for job in jobs]


def _current(job: JobInfo, now: float) -> JobInfo:
    age_s = now - job.submitted
    grows = is_running(job) and not job.array
    run_s = job.ran_s + max(age_s - job.age_s, 0.0) if grows else job.ran_s
    return msgspec.structs.replace(job, age_s=age_s, ran_s=run_s)
