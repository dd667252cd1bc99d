"""Records events of jobs, from the history in their records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from phalanx.head.events.event_log import EventLog
from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import JobRecord, Transition

MOST_OF_ARRAY = 100
"""The largest number of failed array tasks that are noted for one array while the head runs: an
array may have a million tasks.
"""
_KIND_OF_STATE: Final = {
    st.PENDING: "waits",
    st.RUNNING: "began",
    st.RESTARTING: "requeued",
    st.ABORTING: "suspended",
    st.COMPLETING: "ending",
    st.TERMINATING: "ending",
    **dict.fromkeys(st.FINISHED, "ended"),
}
"""The kind of event for each state that a job enters. A job counts as suspended as soon as its
suspension begins.
"""
_KIND_OF_NOTE: Final = {"held": "held", "released": "released"}
"""The kinds of events for those notes in a job's history that do not change the job's state. Any
other such note means that the job's settings were changed.
"""


class JobRecorder:
    """Notes those transitions in each job's history that it has not noted yet."""

    def __init__(self, event_log: EventLog) -> None:
        self._event_log = event_log
        self._told: dict[str, Transition] = {}
        """The last transition of each job that this head or an earlier head noted as an event."""
        self._failed: dict[str, int] = {}
        """The number of failed array tasks of each array that were noted as events."""

    def restore(self, jobs: Iterable[JobRecord]) -> None:
        """Find out, for each job, which transition was noted last as an event.

        A transition counts as noted if it is not later than the newest stored event of any job.
        Later transitions are noted by this head, because the earlier one died before it wrote their
        events. If the store has no events of jobs, all transitions so far count as noted.
        """
        until = self._event_log.jobs_until
        for job in jobs:
            if job.spec.element is not None:
                continue
            known = [step for step in job.history if step.at <= until or not until]
            if known:
                self._told[job.uid] = known[-1]

    def changed(self, job: JobRecord) -> None:
        """Note the events that follow from a job's new transitions."""
        if job.spec.element is not None:
            self._array_task_changed(job, job.spec.element.array)
            return
        told, news = self._told.get(job.uid), []
        for step in reversed(job.history):
            if step is told:
                break
            news.append(step)
        if not news:
            return
        self._told[job.uid] = news[0]
        for step in reversed(news):
            self._note(job, step)

    def forgotten(self, job: JobRecord) -> None:
        """Forget a job."""
        self._told.pop(job.uid, None)
        self._failed.pop(job.uid, None)

    def _note(self, job: JobRecord, step: Transition) -> None:
        if not step.old:
            kind = "submitted"
        elif step.old == step.new:
            kind = _KIND_OF_NOTE.get(step.reason, "changed")
        elif step.new not in _KIND_OF_STATE:
            return  # the state counts from the time at which suspending began
        else:
            kind = _KIND_OF_STATE[step.new]
        self._event_log.note(
            kind,
            at=step.at,
            job=job.uid,
            queue=job.spec.queue,
            user=job.spec.user,
            state=step.new,
            why="" if step.reason in ("submitted", "by command", kind) else step.reason,
            **({"by": job.spec.user} if kind == "submitted" and job.spec.user else {}),
        )

    def _array_task_changed(self, job: JobRecord, array: str) -> None:
        if job.state != st.FAILED and job.state not in st.OUT_OF_TIME:
            return
        count = self._failed[array] = self._failed.get(array, 0) + 1
        if count > MOST_OF_ARRAY:
            return
        self._event_log.note(
            "element-failed",
            job=array,
            queue=job.spec.queue,
            user=job.spec.user,
            state=job.state,
            why=f"{job.spec.name}: {job.reason}",
        )
