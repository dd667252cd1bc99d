"""What becomes of jobs, noted as events by the history in their records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from phalanx.head.events.event_log import EventLog
from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import JobRecord, Transition

MOST_OF_ARRAY = 100
"""So many failed elements of an array are noted while the head runs: it may have a million."""
_KIND_OF_STATE: Final = {
    st.PENDING: "waits",
    st.RUNNING: "began",
    st.RESTARTING: "requeued",
    st.ABORTING: "suspended",
    st.COMPLETING: "ending",
    st.TERMINATING: "ending",
    **dict.fromkeys(st.FINISHED, "ended"),
}
"""What it is that a job is in another state. It is suspended when that begins."""
_KIND_OF_NOTE: Final = {"held": "held", "released": "released"}
"""Of notes that change no state; others say that the job was changed."""


class JobRecorder:
    """Notes what became of jobs since it looked last, by the history in their records."""

    def __init__(self, book: EventLog) -> None:
        self._book = book
        self._told: dict[str, Transition] = {}
        """The last transition of each job that is noted, or that an earlier head has noted."""
        self._failed: dict[str, int] = {}
        """Elements of each array that are noted as failed."""

    def restore(self, jobs: Iterable[JobRecord]) -> None:
        """Know again those that an earlier head knew: what it could not write down any more is
        noted now. Where none has noted anything, what was is left alone."""
        until = self._book.jobs_until
        for job in jobs:
            if job.spec.element is not None:
                continue
            known = [step for step in job.history if step.at <= until or not until]
            if known:
                self._told[job.uid] = known[-1]

    def changed(self, job: JobRecord) -> None:
        """Something about a job may be new, or it is forgotten."""
        if job.spec.element is not None:
            self._element_changed(job, job.spec.element.array)
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
        """A job is not known any more."""
        self._told.pop(job.uid, None)
        self._failed.pop(job.uid, None)

    def _note(self, job: JobRecord, step: Transition) -> None:
        if not step.old:
            kind = "submitted"
        elif step.old == step.new:
            kind = _KIND_OF_NOTE.get(step.reason, "changed")
        elif step.new not in _KIND_OF_STATE:
            return  # it is suspended since it began to be
        else:
            kind = _KIND_OF_STATE[step.new]
        self._book.note(
            kind,
            at=step.at,
            job=job.uid,
            queue=job.spec.queue,
            user=job.spec.user,
            state=step.new,
            why="" if step.reason in ("submitted", "by command", kind) else step.reason,
            **({"by": job.spec.user} if kind == "submitted" and job.spec.user else {}),
        )

    def _element_changed(self, job: JobRecord, array: str) -> None:
        if job.state != st.FAILED and job.state not in st.OUT_OF_TIME:
            return
        count = self._failed[array] = self._failed.get(array, 0) + 1
        if count > MOST_OF_ARRAY:
            return
        self._book.note(
            "element-failed",
            job=array,
            queue=job.spec.queue,
            user=job.spec.user,
            state=job.state,
            why=f"{job.spec.name}: {job.reason}",
        )
