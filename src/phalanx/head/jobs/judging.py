"""Pure functions on a job: which members may start, how many must run, which policy applies, and
whether the job is over.
"""

from __future__ import annotations

from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import JobRecord, MemberRecord
from phalanx.model.jobs.spec import Policy, TaskGroup

_BEGUN = (st.RUNNING, st.TERMINATING, st.SUCCEEDED, st.FAILED)
LIVE = (st.PENDING, st.RUNNING, st.TERMINATING)
FREE_OF_CHARGE = frozenset({st.POD_EVICTED, st.UNKNOWN_EVENT, st.JOB_UPDATED, st.COMMAND_ISSUED})
"""Causes of restarts that are not the job's fault. Restarts for these causes do not count as
retries.
"""

ALLOWED = {
    st.PENDING: {
        st.RESTART_JOB: st.RESTARTING,
        st.RESTART_TASK: st.RESTARTING,
        st.RESTART_POD: st.RESTARTING,
        st.RESTART_PARTITION: st.RESTARTING,
        st.ABORT_JOB: st.ABORTING,
        st.COMPLETE_JOB: st.COMPLETING,
        st.TERMINATE_JOB: st.TERMINATING,
    },
    st.ABORTING: {st.RESUME_JOB: st.RESTARTING, st.TERMINATE_JOB: st.TERMINATING},
    st.ABORTED: {st.RESUME_JOB: st.RESTARTING, st.TERMINATE_JOB: st.TERMINATING},
    st.COMPLETING: {},
    st.TERMINATING: {},
    st.COMPLETED: {},
    st.FAILED: {},
    st.TERMINATED: {},
    st.TIMED_OUT: {},
    st.DEADLINE: {},
    st.DEPENDENCY_FAILED: {},
}
"""The next state for each state and action. An action that is missing from a state's row does
nothing.
"""
ALLOWED[st.RUNNING] = ALLOWED[st.PENDING]
ALLOWED[st.RESTARTING] = ALLOWED[st.PENDING]


def is_released(job: JobRecord, group: TaskGroup) -> bool:
    """Whether the members of `group` may start. They may if each group for which `group` waits has
    its minimum of running or succeeded members. If the manifest says `any`, one such group is
    enough.
    """
    if group.depends_on is None:
        return True
    met = (_has_minimum(job, name) for name in group.depends_on.names)
    return any(met) if group.depends_on.iteration == "any" else all(met)


def _has_minimum(job: JobRecord, name: str) -> bool:
    group = job.spec.group(name)
    assert group is not None, "manifests with unknown dependencies are refused"
    return job.count(st.RUNNING, st.SUCCEEDED, group=name) >= group.min_available


def gang_minimum(job: JobRecord) -> int:
    """Return how many members must run together now. Members that still wait for other groups do
    not count. Otherwise the gang would wait for them, and those other groups could never start.
    """
    return minimums(job)[0]


def minimums(job: JobRecord) -> tuple[int, list[int | None]]:
    """Return the minimum of the gang, and how many members of each group count (see
    `group_minimum`).
    """
    spec = job.spec
    counted = [group_minimum(job, group) for group in spec.groups]
    if spec.array is not None:
        return 1, counted
    for group, minimum in zip(spec.groups, counted, strict=True):
        if minimum != group.min_available:
            return min(spec.min_available, sum(count or 0 for count in counted)), counted
    return spec.min_available, counted


def group_minimum(job: JobRecord, group: TaskGroup) -> int | None:
    """Return how many of a group's members count in the gang now.

    Returns None while the whole group waits. Also returns None if none of its members has begun and
    the groups on which it depends were lost. If some of its members have begun when these groups
    are lost, members that wait again do not count.
    """
    name = group.name
    waiting = job.count(st.WAITING, group=name)
    if waiting and waiting == len(job.groups[name]):
        return None
    if is_released(job, group):
        return group.min_available
    if not job.count(*_BEGUN, group=name):
        return None
    return min(group.min_available, len(job.groups[name]) - waiting)


def find_policy(job: JobRecord, group: str, event: str, code: int | None = None) -> Policy | None:
    """Return the first policy of the group for this event or exit code or, without such a policy,
    the first policy of the job.
    """
    own = job.spec.group(group)
    for policy in (*(own.policies if own else ()), *job.spec.policies):
        if policy.exit_code is not None:
            if policy.exit_code == code:
                return policy
        elif event in policy.events or _any_means(policy, event):
            return policy
    return None


def _any_means(policy: Policy, event: str) -> bool:
    """Whether the policy names the event `*` and therefore applies to this event. A policy for `*`
    applies to the event PodPending only if it has a timeout.
    """
    return st.ANY_EVENT in policy.events and (
        event != st.POD_PENDING or policy.timeout_s is not None
    )


def targets(job: JobRecord, action: str, group: str, index: int) -> list[MemberRecord]:
    """Return the members to which an action applies."""
    if action == st.RESTART_TASK:
        return job.groups.get(group, [])
    if action == st.RESTART_POD:
        return [m for m in job.groups.get(group, []) if m.index == index]
    if action == st.RESTART_PARTITION:
        own = job.spec.group(group)
        size = own.partition.size if own and own.partition else max(own.replicas if own else 1, 1)
        return [m for m in job.groups.get(group, []) if m.index // size == index // size]
    return list(job.members)


def array_verdict(job: JobRecord) -> tuple[str, str] | None:
    """Return (Completed or Failed, reason) for an array; None while any of its tasks waits or
    lives.
    """
    if job.count(st.WAITING, st.BLOCKED, *LIVE):
        return None
    completed, failed, ended = (job.count(s) for s in (st.SUCCEEDED, st.FAILED, st.ENDED))
    if not failed + ended:
        return st.COMPLETED, f"all {completed:,} array tasks completed"
    said = [f"{completed:,} of {completed + failed + ended:,} array tasks completed"]
    said += [f"{failed:,} failed"] if failed else []
    said += [f"{ended:,} were ended"] if ended else []
    return st.FAILED, ", ".join(said)


def verdict(job: JobRecord) -> tuple[str, str] | None:
    """Return (Completed or Failed, reason); None while the result of the job can still change.

    The checks are made in Volcano's order. First: whether enough members have succeeded. Then, once
    all members have ended: each group's minimum, and at last `minSuccess` or `minAvailable`.
    """
    spec = job.spec
    if spec.min_success is None and job.count(*LIVE):
        return None
    succeeded = job.count(st.SUCCEEDED)
    if spec.min_success is not None and succeeded >= spec.min_success:
        return st.COMPLETED, f"{members(succeeded)} succeeded, minSuccess is {spec.min_success}"
    if not any(job.groups.values()) or job.count(*LIVE):
        return None
    waiting = [name for name in job.groups if job.count(st.WAITING, group=name)]
    if waiting:
        wait = f"{', '.join(waiting)} {'waits' if len(waiting) == 1 else 'wait'}"
        return st.FAILED, f"the groups that {wait} for have ended without success"
    if spec.min_available >= sum(g.min_available for g in spec.groups):
        for group in spec.groups:
            done = job.count(st.SUCCEEDED, group=group.name)
            if done < group.min_available:
                of = f"of {group.min_available} that it needs"
                reason = f"{members(done)} of {group.name} succeeded, {of}"
                return st.FAILED, f"{reason}{_first_failure(job)}"
    why = _first_failure(job)
    if spec.min_success is not None:
        return st.FAILED, f"{members(succeeded)} succeeded, minSuccess is {spec.min_success}{why}"
    if succeeded >= spec.min_available:
        return st.COMPLETED, f"{members(succeeded)} succeeded"
    return st.FAILED, f"{members(succeeded)} succeeded, minAvailable is {spec.min_available}{why}"


def members(count: int) -> str:
    """Return a number of members in words: "1 member", "2 members"."""
    return "1 member" if count == 1 else f"{count} members"


def _first_failure(job: JobRecord) -> str:
    """Return a clause that names the member that failed first, and how it failed."""
    failed = [member for member in job.members if member.state == st.FAILED]
    first = min(failed, key=lambda member: member.ended or 0.0, default=None)
    return "" if first is None else f"; {first.name}: {first.reason}"
