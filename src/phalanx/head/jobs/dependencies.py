"""Pure functions on a job's dependencies: whether the dependencies are met, whether they can still
be met, and how to describe them in words. `now` is the wall-clock time.
"""

from __future__ import annotations

from typing import Protocol

from msgspec.structs import replace

from phalanx.head.jobs import judging
from phalanx.manifests.cron import moment_text
from phalanx.manifests.dependencies import written_need
from phalanx.model.jobs import states as st
from phalanx.model.jobs.dependencies import (
    AFTER,
    AFTER_ANY,
    AFTER_CORR,
    AFTER_NOT_OK,
    AFTER_OK,
    MET,
    NEVER,
    SINGLETON,
    WAITS,
    Dependency,
    Outcome,
)
from phalanx.model.jobs.records import JobRecord
from phalanx.model.readable import length_text

SHOWN = 3
"""The largest number of dependencies that a sentence names."""
_UNTIL = {
    AFTER: "has begun",
    AFTER_ANY: "has ended",
    AFTER_OK: "has completed",
    AFTER_NOT_OK: "has ended in a state other than Completed",
}


class DependencyJobs(Protocol):
    """The jobs on which other jobs depend."""

    def get(self, uid: str) -> JobRecord | None:
        """Return the job with this name, or None if it is not known any more."""
        ...

    def is_first(self, uid: str, word: str) -> bool:
        """Whether all jobs that were submitted earlier with this singleton word, or under this
        name, have finished.
        """
        ...


def is_over(job: JobRecord) -> bool:
    """Whether the job has ended and none of its members is still running."""
    return job.is_finished and not job.count(*judging.LIVE)


def outcome(job: JobRecord, need: Dependency, jobs: DependencyJobs, now: float) -> Outcome:
    """Return the current outcome of one dependency of a job."""
    if need.kind == SINGLETON:
        return Outcome(state=MET if jobs.is_first(job.uid, need.job) else WAITS)
    other = jobs.get(need.job)
    if other is None:
        return Outcome(state=NEVER, why="is not known any more")
    if need.kind == AFTER:
        began = other.started if other.started is not None else other.finished
        return Outcome() if began is None else Outcome(state=MET, since=began + need.delay_s)
    if (
        need.kind == AFTER_CORR
    ):  # each of its array tasks waits for the outcome of the same task of the other array
        return Outcome(state=WAITS if job.count(st.BLOCKED) else MET)
    if not is_over(other):
        return Outcome()
    is_ok = other.state == st.COMPLETED
    if need.kind == AFTER_ANY or is_ok == (need.kind == AFTER_OK):
        return Outcome(state=MET)
    return Outcome(state=NEVER, why=f"is {other.state}")


def look(job: JobRecord, jobs: DependencyJobs, now: float) -> None:
    """Note in the job's record the current outcome of each dependency."""
    after = job.spec.after
    if after is None:
        return
    for number, need in enumerate(after.needs):
        is_open = job.queued is None or need.kind == AFTER_CORR
        if is_open and job.outcomes[number].state == WAITS:
            job.outcomes[number] = outcome(job, need, jobs, now)
    if job.queued is None and verdict(job, now) == MET:
        job.queued = now


def clock_set_back(job: JobRecord, now: float) -> None:
    """After the clock was set back, shorten the remaining part of each delay to at most the whole
    delay. (A job may request a delay after another job's start.)
    """
    for number, need in enumerate(job.spec.after.needs if job.spec.after is not None else ()):
        one = job.outcomes[number]
        if one.since is not None and one.since > now + need.delay_s:
            job.outcomes[number] = replace(one, since=now + need.delay_s)


def verdict(job: JobRecord, now: float) -> str:
    """Return WAITS, MET or NEVER: the verdict on the job's dependencies as a whole. A verdict of
    MET is final.
    """
    after = job.spec.after
    if after is None or job.queued is not None:
        return MET
    pairs = zip(after.needs, job.outcomes, strict=True)
    states = [MET if n.kind == AFTER_CORR else _by(one, now) for n, one in pairs]
    if after.is_any:
        return MET if MET in states else WAITS if WAITS in states else NEVER
    return NEVER if NEVER in states else WAITS if WAITS in states else MET


def _by(one: Outcome, now: float) -> str:
    return WAITS if one.state == MET and one.since is not None and one.since > now else one.state


def next_moment(job: JobRecord, now: float) -> float | None:
    """Return the earliest wall-clock time at which one more dependency will be met."""
    if verdict(job, now) != WAITS:
        return None
    moments = [one.since for one in job.outcomes if one.since is not None and one.since > now]
    return min(moments, default=None)


def unheard(job: JobRecord) -> list[str]:
    """Return the jobs whose outcome this job still needs."""
    after = job.spec.after
    if after is None or job.is_finished:
        return []
    pairs = zip(after.needs, job.outcomes, strict=True)
    waiting = [need for need, one in pairs if one.state == WAITS and need.kind != SINGLETON]
    return [need.job for need in waiting if job.queued is None or need.kind == AFTER_CORR]


def paired(job: JobRecord) -> list[str]:
    """Return the arrays for whose tasks the tasks of this array wait. Each task waits for the task
    with the same index.
    """
    after = job.spec.after
    return [n.job for n in (after.needs if after is not None else ()) if n.kind == AFTER_CORR]


def why_waits(job: JobRecord, now: float) -> str:
    """Return a sentence about the jobs and times for which the job waits."""
    after = job.spec.after
    assert after is not None
    pairs = zip(after.needs, job.outcomes, strict=True)
    found = [
        _said(need, one)
        for need, one in pairs
        if _by(one, now) == WAITS and need.kind != AFTER_CORR
    ]
    joined = (" or " if after.is_any else " and ").join(found[:SHOWN])
    return f"it waits {joined}{_more(len(found))}"


def why_never(job: JobRecord, now: float) -> str:
    """Return a sentence about the dependencies that can no longer be met."""
    after = job.spec.after
    assert after is not None
    found = [(n, o) for n, o in zip(after.needs, job.outcomes, strict=True) if o.state == NEVER]
    said = [f"{written_need(n)}: {_short(n.job)} {o.why}" for n, o in found[:SHOWN]]
    return f"it cannot start any more: {'; '.join(said)}{_more(len(found))}"


def _more(found: int) -> str:
    return f" ... ({found - SHOWN:,} more)" if found > SHOWN else ""


def _said(need: Dependency, one: Outcome) -> str:
    name = _short(need.job)
    if need.kind == SINGLETON:
        return f"until the earlier jobs of {name} have ended ({need.kind})"
    if one.since is not None:
        delay = length_text(need.delay_s)
        return f"until {moment_text(one.since)}, {delay} after {name} began ({need.kind})"
    return f"until {name} {_UNTIL[need.kind]} ({need.kind})"


def _short(uid: str) -> str:
    return uid.removeprefix("default/")
