"""Rows of jobs with their present times. The head sends a row only when a job has changed, although
the job's times grow all the time.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from phalanx.model.rows.work import JobInfo


def is_running(job: JobInfo) -> bool:
    """Whether the time that a job has run still grows. An array has no such time, only its
    tasks.
    """
    return bool(job.running) and not job.array and job.finished is None


def current(jobs: Iterable[JobInfo], now: float) -> list[JobInfo]:
    """Return these rows with each job's age and run time at `now`, in seconds since the epoch."""
    return [_current(job, now) for job in jobs]


def _current(job: JobInfo, now: float) -> JobInfo:
    age_s = now - job.submitted
    ran_s = job.ran_s + max(age_s - job.age_s, 0.0) if is_running(job) else job.ran_s
    return msgspec.structs.replace(job, age_s=age_s, ran_s=ran_s)
