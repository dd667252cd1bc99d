"""How long what crashes rests before it starts again: a member in its place, or a whole job.

The ends of members by people, by preemption and with their nodes are no crashes.
"""

from __future__ import annotations

from phalanx.manifests.cron import moment_text
from phalanx.model.crash_pauses import LONGEST_PAUSE_S, STEADY_S, pause_s
from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import WHOLE, JobRecord, MemberRecord

_ENDS = frozenset({st.POD_FAILED, st.TASK_FAILED, st.TASK_COMPLETED})
"""Events by which a member has ended by itself."""


def crashed(one: JobRecord | MemberRecord, lived_s: float, now: float) -> float:
    """It starts again after a crash: how long it rests before. `now`: the wall-clock time."""
    one.crashes = 1 if lived_s >= STEADY_S else one.crashes + 1
    rest_s = pause_s(one.crashes)
    one.rests_until = now + rest_s
    return rest_s


def lived_s(member: MemberRecord, now: float) -> float:
    """How long a member has lived that has just ended, since it last began."""
    if member.started is None:
        return 0.0
    began = max(member.started, member.rests_until or member.started)
    return max((now if member.ended is None else member.ended) - began, 0.0)


def lived_before(job: JobRecord, event: str, group: str, index: int, now: float) -> float | None:
    """How long those members lived whose end is this event; None for an event that is no end."""
    if event not in _ENDS:
        return None
    members = [m for m in job.groups.get(group, []) if index in (WHOLE, m.index)]
    return max((lived_s(member, now) for member in members), default=0.0)


def left_s(one: JobRecord | MemberRecord, now: float) -> float:
    """How long it still rests. Where the clock was set back, a rest is over at once."""
    left = 0.0 if one.rests_until is None else one.rests_until - now
    return left if 0 < left <= LONGEST_PAUSE_S else 0.0


def clear(job: JobRecord) -> None:
    """Somebody had the job start again: what it did before does not count."""
    resting: list[JobRecord | MemberRecord] = [job, *job.members]
    for one in resting:
        one.crashes, one.rests_until = 0, None


def first(job: JobRecord, now: float) -> MemberRecord | None:
    """The first of its members that rests before it starts again in its place; None: none does."""
    if not job.restarts or job.state not in (st.PENDING, st.RUNNING):
        return None
    return next((member for member in job.members if left_s(member, now)), None)


def why_rests(one: JobRecord | MemberRecord, now: float) -> str:
    """In one clause, until when it rests and why; empty when it does not."""
    if not left_s(one, now):
        return ""
    assert one.rests_until is not None
    times = "once" if one.crashes == 1 else f"{one.crashes} times in a row"
    return f"it crashed {times}, and rests until {moment_text(one.rests_until)}"
