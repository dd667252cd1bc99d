"""Decides how long a crashed member or job rests before it starts again. A member keeps its place
while it rests.

A member that has ended has not crashed if a person, a preemption or the death of its node ended it.
"""

from __future__ import annotations

from phalanx.manifests.cron import moment_text
from phalanx.model.crash_pauses import LONGEST_PAUSE_S, STEADY_S, pause_s
from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import WHOLE, JobRecord, MemberRecord

_ENDS = frozenset({st.POD_FAILED, st.TASK_FAILED, st.TASK_COMPLETED})
"""Events of members that ended of their own accord."""


def crashed(one: JobRecord | MemberRecord, lived_s: float, now: float) -> float:
    """Count a crash of a job or member that will start again. Returns the seconds for which it must
    rest first. `now`: the wall-clock time.
    """
    one.crashes = 1 if lived_s >= STEADY_S else one.crashes + 1
    rest_s = pause_s(one.crashes)
    one.rests_until = now + rest_s
    return rest_s


def lived_s(member: MemberRecord, now: float) -> float:
    """Return the seconds from the last start of a member to its end, which was just reported."""
    if member.started is None:
        return 0.0
    began = max(member.started, member.rests_until or member.started)
    return max((now if member.ended is None else member.ended) - began, 0.0)


def lived_before(job: JobRecord, event: str, group: str, index: int, now: float) -> float | None:
    """Return how many seconds a member lived, if the event reports that the member has ended. If
    all members of a group have ended, the longest of their lives counts. Returns None for any other
    event.
    """
    if event not in _ENDS:
        return None
    members = [m for m in job.groups.get(group, []) if index in (WHOLE, m.index)]
    return max((lived_s(member, now) for member in members), default=0.0)


def left_s(one: JobRecord | MemberRecord, now: float) -> float:
    """Return the seconds for which a job or member must still rest; 0 if it does not rest, or if
    the clock was set back.
    """
    left = 0.0 if one.rests_until is None else one.rests_until - now
    return left if 0 < left <= LONGEST_PAUSE_S else 0.0


def clear(job: JobRecord) -> None:
    """Forget past crashes, because a person started the job again."""
    resting: list[JobRecord | MemberRecord] = [job, *job.members]
    for one in resting:
        one.crashes, one.rests_until = 0, None


def first(job: JobRecord, now: float) -> MemberRecord | None:
    """Return the job's first member that is resting in its place; None if no member is."""
    if not job.restarts or job.state not in (st.PENDING, st.RUNNING):
        return None
    return next((member for member in job.members if left_s(member, now)), None)


def why_rests(one: JobRecord | MemberRecord, now: float) -> str:
    """Return a clause that says why a job or member rests, and until when; "" if it does not
    rest.
    """
    if not left_s(one, now):
        return ""
    assert one.rests_until is not None
    times = "once" if one.crashes == 1 else f"{one.crashes} times in a row"
    return f"it crashed {times}, and rests until {moment_text(one.rests_until)}"
