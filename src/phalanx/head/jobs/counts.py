"""Counts jobs for metrics. An array counts as one job."""

from __future__ import annotations

from typing import Final

from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import JobRecord
from phalanx.observe.metrics.meter import Meter

SUBMITTED: Final = "submitted"
BEGAN: Final = "began"
"""The job began for the first time."""
RETRIED: Final = "retried"
ENDED: Final = "ended"
RESULTS = {
    st.COMPLETED: "completed", st.FAILED: "failed", st.TERMINATED: "terminated",
    st.TIMED_OUT: "timed_out", st.DEADLINE: "deadline",
    st.DEPENDENCY_FAILED: "dependency_failed",
}  # fmt: skip


class JobCounts:
    """Records what happens to jobs in a meter."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def count(self, job: JobRecord, what: str) -> None:
        """Count one occurrence, named by a constant of this module."""
        if job.spec.element is not None:
            return
        meter, queue = self._meter, job.spec.queue
        if what == SUBMITTED:
            meter.add("phalanx_jobs_submitted_total", queue)
        elif what == RETRIED:
            meter.add("phalanx_jobs_retried_total", queue)
        elif what == BEGAN and job.started is not None:
            waited_s = max(job.started - job.submitted, 0.0)
            meter.observe("phalanx_job_wait_seconds", waited_s, queue)
        elif what == ENDED:
            meter.add("phalanx_jobs_finished_total", queue, RESULTS[job.state])
            if job.started is not None:
                meter.observe("phalanx_job_run_seconds", job.ran_s, queue)
