"""Pure functions on a job's times: whether its time is up, whether it waits for a given time, and
when to check again. `now` is the wall-clock time. The record's `ran_s` must be up to date
(`run_clock`).
"""

from __future__ import annotations

from typing import NamedTuple

from phalanx.head.jobs import dependencies, resting
from phalanx.manifests.cron import moment_text
from phalanx.model.jobs import states as st
from phalanx.model.jobs.dependencies import MET
from phalanx.model.jobs.records import JobRecord
from phalanx.model.readable import length_text

TIMED = (st.PENDING, st.RUNNING)
"""The states in which the gang's time is limited. In all other states the gang ends or has ended.
"""
WITH_DEADLINE = (*TIMED, st.ABORTED)
SOONEST_S = 0.001
"""The shortest time between two checks of a job, in seconds. The time is not 0 because sums of
times are not exact.
"""


def deadline_of(job: JobRecord) -> float | None:
    """Return the wall-clock time by which the job must have ended.

    If the clock was set ahead after the job was submitted, a deadline that is a date moves by the
    same amount. So a wrong clock ends no job.
    """
    deadline = job.spec.timing.deadline
    if deadline is None:
        return None
    if deadline.at is not None:
        return deadline.at + job.ahead_s
    return deadline.since(job.submitted - job.set_back_s)


def limit_of(job: JobRecord) -> float | None:
    """Return how many seconds the gang may run. Returns None for an array, whose tasks have their
    own limits.
    """
    return None if job.spec.array is not None else job.spec.timing.limit_s


def begins(job: JobRecord) -> float | None:
    """Return the wall-clock time before which the job must not start."""
    begin = job.spec.timing.begin
    return None if begin is None else begin.since(job.submitted - job.set_back_s)


def waits_since(job: JobRecord) -> float:
    """Return the wall-clock time since which the job has waited for places. It is the latest of
    four times, as in Slurm (22.05.8, AccrueTime): its submission, the moment when its dependencies
    were met, its begin time and its release. So a job gains no age while it cannot start.
    """
    since = job.submitted if job.queued is None else job.queued
    return max([since, *(at for at in (job.released, begins(job)) if at is not None)])


def is_held_back(job: JobRecord, now: float) -> bool:
    """Whether no member of the job may start yet, even if there is room. A job that has begun is
    not held back again, even if the wall-clock time goes backwards.
    """
    waits = (st.PENDING, st.RUNNING) if job.spec.array is not None else (st.PENDING,)
    if job.state not in waits or job.is_held:
        return job.state in waits
    if dependencies.verdict(job, now) != MET:
        return True
    # Members that were requested have finished their rest, even if a clock that was set back shows
    # that they still rest.
    if resting.left_s(job, now) and job.count(st.WAITING):
        return True
    begin = begins(job)
    if begin is None or begin <= now:
        return False
    return job.started is None and not any(member.attempt for member in job.members)


class HeldBack(NamedTuple):
    """The reason why no member of a job may start yet: a code, a sentence, and the action or event
    after which members may start.
    """

    code: str
    sentence: str
    change: str = ""


def why_held_back(job: JobRecord, now: float) -> HeldBack | None:
    """Return why no member of the job may start yet; None if a member may start."""
    if not is_held_back(job, now):
        return None
    if job.is_held:
        name = job.uid.removeprefix("default/")
        return HeldBack("held", "it is held", f"phalanx release {name}")
    if dependencies.verdict(job, now) != MET:
        return HeldBack("dependency", dependencies.why_waits(job, now))
    if rests := resting.why_rests(job, now):
        return HeldBack("rests", f"{rests} ({job.reason})")
    begin = begins(job)
    assert begin is not None
    return HeldBack("begin", f"it begins at {moment_text(begin)} at the earliest (begin)")


def is_timeless(job: JobRecord) -> bool:
    """Whether the job has no times at all, like most jobs. The functions below then have nothing to
    compute.
    """
    timing = job.spec.timing
    times = (timing.limit_s, timing.deadline, timing.begin, job.reserved_until)
    return times == (None, None, None, None)


def left_s(job: JobRecord, now: float, ran_s: float | None = None) -> float | None:
    """Return the seconds after which a running gang must have ended; None if no limit applies.
    `ran_s`: the seconds for which the gang has run; None for those in the record.
    """
    limit_s, deadline = limit_of(job), deadline_of(job)
    ends = [] if limit_s is None else [limit_s - (job.ran_s if ran_s is None else ran_s)]
    if job.reserved_until is not None:
        ends.append(job.reserved_until - now)
    return min([*ends, deadline - now] if deadline is not None else ends, default=None)


def time_is_up(job: JobRecord, now: float) -> tuple[str, str] | None:
    """Return (TimeOut or Deadline, reason) if the job's time is up, or if the job has not begun and
    can no longer end by its deadline; None otherwise.
    """
    limit_s, deadline = limit_of(job), deadline_of(job)
    has_begun = job.run_started is not None
    is_timed = has_begun and job.state in TIMED
    if limit_s is not None and is_timed and job.ran_s >= limit_s:
        return st.TIMED_OUT, f"its gang has run for {length_text(limit_s)}, its limit (time)"
    until = job.reserved_until
    if until is not None and is_timed and now >= until:
        name = job.spec.reservation
        return st.TIMED_OUT, f"its reservation {name} ended at {moment_text(until)}"
    if deadline is None or job.state not in WITH_DEADLINE:
        return None
    if now >= deadline:
        return st.DEADLINE, f"its deadline was {moment_text(deadline)}"
    if limit_s is not None and not has_begun and deadline - limit_s - now <= 0:
        needs = f"it may run for {length_text(limit_s)} (time)"
        return st.DEADLINE, f"{needs}, and can no longer end by {moment_text(deadline)}"
    return None


def must_warn(job: JobRecord, now: float) -> bool:
    """Whether the job's members must now get the signal that precedes their end."""
    if job.spec.array is not None:
        return False  # each task of an array is warned on its own
    signal, left = job.spec.timing.signal, left_s(job, now)
    is_running = job.state in TIMED and bool(job.count(st.RUNNING))
    if signal is None or left is None or job.is_warned or not is_running:
        return False
    return left <= signal.before_s


def next_look_s(job: JobRecord, now: float, is_going: bool) -> float | None:
    """Return the seconds until the result of one of the functions above may change; None if time
    alone changes none of these results. `is_going`: whether the gang's clock is running.
    """
    if job.state not in WITH_DEADLINE:
        return None
    limit_s, deadline, signal = limit_of(job), deadline_of(job), job.spec.timing.signal
    has_begun, begin = job.run_started is not None, begins(job)
    times = [] if deadline is None else [deadline - now]
    if begin is not None and begin > now and job.count(st.WAITING, st.BLOCKED):
        times.append(begin - now)
    if deadline is not None and limit_s is not None and not has_begun:
        times.append(deadline - limit_s - now)
    if job.state in TIMED and is_going and job.count(st.RUNNING):
        left = left_s(job, now)
        times += [] if left is None else [left]
        if signal is not None and left is not None and not job.is_warned:
            times.append(left - signal.before_s)
    return max(min(times), SOONEST_S) if times else None
