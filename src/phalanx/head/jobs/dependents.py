"""Finds, without a search, the jobs that wait for a given job."""

from __future__ import annotations

from collections.abc import Mapping

from phalanx.errors import JobCommandError
from phalanx.head.jobs import dependencies
from phalanx.manifests.arrays import written_ranges
from phalanx.manifests.dependencies import others, written_dependencies
from phalanx.model.jobs.arrays import ArraySpec, Indices
from phalanx.model.jobs.dependencies import AFTER, AFTER_CORR, SINGLETON
from phalanx.model.jobs.records import JobRecord
from phalanx.model.jobs.spec import JobSpec
from phalanx.model.nearest import nearest


class Dependents:
    """The jobs that wait for other jobs, and the sequences of singleton jobs. One job of each
    sequence runs at a time.
    """

    def __init__(self, jobs: Mapping[str, JobRecord]) -> None:
        self._jobs = jobs
        self._waiting: dict[str, dict[str, bool]] = {}
        """For each job by `namespace/name`: the jobs that wait for its end. The value of each
        waiting job says whether it also waits for the start.
        """
        self._lines: dict[str, dict[str, None]] = {}
        """For each singleton word: the jobs that have not ended, in the order of submission."""

    def known_again(self, job: JobRecord) -> None:
        """Add a job that was restored from the store. Other jobs may name this job as their
        singleton word, and may have been restored before it. This job goes first in their
        sequence, because they wait for it.
        """
        self.add(job)
        line = self._lines.get(job.uid)
        if line is not None and not dependencies.is_over(job):
            self._lines[job.uid] = {job.uid: None, **line}

    def add(self, job: JobRecord) -> None:
        """Add a new job."""
        after = job.spec.after
        if after is None or dependencies.is_over(job):
            return
        begun = {need.job for need in after.needs if need.kind == AFTER}
        for uid in dependencies.unheard(job):
            self._waiting.setdefault(uid, {})[job.uid] = uid in begun
        for word in _words(job):
            line = self._lines.setdefault(word, {})
            namesake = self._jobs.get(word)
            if namesake is not None and not dependencies.is_over(namesake):
                line.setdefault(word)
            if job.queued is None:
                line.setdefault(job.uid)
            else:  # this job was first before, even if the clock was set back in the meantime
                self._lines[word] = {job.uid: None, **line}

    def is_first(self, uid: str, word: str) -> bool:
        """Whether no unfinished job precedes this one in the sequence."""
        return next(iter(self._lines.get(word, ())), uid) == uid

    def is_awaited(self, job: JobRecord) -> bool:
        """Whether any job still waits for the start or end of this job."""
        return job.uid in self._waiting

    def to_tell(self, job: JobRecord) -> list[str]:
        """Return the jobs that must be notified when this job starts or ends."""
        waiting = self._waiting.get(job.uid, {})
        if not dependencies.is_over(job):
            has_begun = job.started is not None
            return [uid for uid, is_told in waiting.items() if is_told and has_begun]
        return [*waiting, *self._leave_lines(job)]

    def drop_heard(self, job: JobRecord) -> list[str]:
        """Remove this job from the waiters of jobs whose outcome it no longer needs. Call this
        after the job was checked. Returns those jobs for which no other job waits.
        """
        left = set(dependencies.unheard(job))
        free = []
        for uid in others(job.spec.after):
            waiting = self._waiting.get(uid, {})
            if uid not in left and waiting.pop(job.uid, None) is not None and not waiting:
                del self._waiting[uid]
                free.append(uid)
        return free

    def forget(self, job: JobRecord) -> None:
        """Forget a job that is gone."""
        for uid in others(job.spec.after):
            waiting = self._waiting.get(uid, {})
            if waiting.pop(job.uid, None) is not None and not waiting:
                del self._waiting[uid]
        self._leave_lines(job)

    def _leave_lines(self, job: JobRecord) -> list[str]:
        """Remove a job from its sequences. Returns the jobs that are now first in them."""
        found = []
        for word in (job.uid, *_words(job)):
            line = self._lines.get(word, {})
            was_first = next(iter(line), "") == job.uid
            line.pop(job.uid, None)
            if was_first and line:
                found.append(next(iter(line)))
            elif was_first:
                del self._lines[word]
        return found


def _words(job: JobRecord) -> list[str]:
    after = job.spec.after
    return [n.job for n in (after.needs if after is not None else ()) if n.kind == SINGLETON]


def check_known(spec: JobSpec, jobs: Mapping[str, JobRecord]) -> None:
    """Raise JobCommandError if a new job depends on an unknown job, or if tasks of a new array
    depend on array tasks that do not exist.
    """
    missing = [uid for uid in others(spec.after) if uid not in jobs]
    if missing:
        assert spec.after is not None
        name = missing[0].removeprefix("default/")
        near = nearest(name, (uid.removeprefix("default/") for uid in jobs))
        raise JobCommandError(
            f"job {spec.uid}: after={written_dependencies(spec.after)[:200]}: no job is called "
            f"{name!r}{near}; use a job that was submitted before and is not deleted"
        )
    for need in spec.after.needs if spec.after is not None else ():
        if need.kind == AFTER_CORR:
            _check_paired(spec, need.job, jobs[need.job].spec.array)


def _check_paired(spec: JobSpec, uid: str, other: ArraySpec | None) -> None:
    named = f"job {spec.uid}: after={AFTER_CORR}:{uid}"
    if spec.array is None or other is None:
        none = spec.uid if spec.array is None else uid
        raise JobCommandError(f"{named}: {none} is not an array; {AFTER_CORR} needs two arrays")
    if spec.array.ranges == other.ranges:
        return
    there = Indices(other.ranges)
    missing = next((i for i in Indices(spec.array.ranges) if there.position(i) is None), None)
    if missing is not None:
        raise JobCommandError(
            f"{named}: {uid} has no task {missing}; use only indices of that array: "
            f"{written_ranges(other.ranges)[:200]}"
        )
