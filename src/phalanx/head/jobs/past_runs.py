"""Run times of completed jobs, for forecasts of jobs of the same kind. Jobs are of one kind if they
run the same commands in the same queue with the same number of members. The run times are kept only
in memory: a restarted head begins without any.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import JobRecord
from phalanx.model.jobs.spec import JobSpec
from phalanx.scheduler.cycle.specs import PodGroupSpec
from phalanx.scheduler.forecast.run_times import LearntRunTimes

_KEPT = 20_000
_encode = msgspec.msgpack.Encoder(order="sorted").encode


class PastJobs:
    """Collects the run times of past jobs by kind."""

    def __init__(self, job_of: Callable[[str], JobRecord | None]) -> None:
        """`job_of` finds a job by its uid. The job's podgroup has the same uid."""
        self._job_of = job_of
        self.learnt = LearntRunTimes(self._kind_of)
        self._counted: dict[tuple[str, bytes, float], None] = {}
        """The runs that were counted last, by job, request and duration. An ended job may change
        and be reported again, and is then not counted again.
        """
        self._kinds: dict[str, tuple[JobSpec, bytes]] = {}
        """The kinds of the jobs that were looked up last. The kinds are kept because each cycle
        looks up all waiting jobs.
        """

    def job_changed(self, job: JobRecord) -> None:
        """Note a job that may have changed. If it has completed, its run time is recorded. Arrays
        are left out.
        """
        if job.state == st.RUNNING and job.run_started is not None:
            self.learnt.track_record.started(job.uid, job.run_started)
        elif job.is_finished:
            self.learnt.track_record.forget(job.uid)
        if (
            job.spec.array is not None
            or job.state != st.COMPLETED
            or job.started is None
            or job.finished is None
        ):
            return
        ran_s = job.finished - job.started
        this = (job.uid, job.request, round(ran_s, 3))
        if this not in self._counted and ran_s > 0:
            if len(self._counted) >= _KEPT:
                del self._counted[next(iter(self._counted))]
            self._counted[this] = None
            self.learnt.add(_kind(job.spec), ran_s)

    def _kind_of(self, group: PodGroupSpec) -> bytes | None:
        job = self._job_of(group.uid)
        if job is None:
            return None
        known = self._kinds.get(job.uid)
        if known is None or known[0] is not job.spec:
            if len(self._kinds) >= _KEPT:
                self._kinds.clear()
            known = self._kinds[job.uid] = (job.spec, _kind(job.spec))
        return known[1]


def _kind(spec: JobSpec) -> bytes:
    groups = [
        (group.replicas, [p.command + p.args for p in group.template.processes])
        for group in spec.groups
    ]
    return _encode((spec.queue, spec.namespace, groups))
