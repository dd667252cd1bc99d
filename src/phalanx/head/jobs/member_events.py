"""Events of a job's members: they prepare, run, lose their places and exit."""

from __future__ import annotations

from phalanx.head.jobs import events as ev
from phalanx.head.jobs import resting, time_limits
from phalanx.head.jobs.actions import JobActions
from phalanx.head.jobs.effects import JobEffects
from phalanx.head.jobs.policies import JobPolicies
from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import JobRecord, MemberRecord
from phalanx.model.jobs.spec import UNLIMITED
from phalanx.model.jobs.timing import NODE, PREEMPTED
from phalanx.model.node_deaths import MOST, why_not_again, why_stopped, with_one_more


class MemberEvents:
    """Changes a job and its members after an event of one member."""

    def __init__(self, effects: JobEffects, actions: JobActions, policies: JobPolicies) -> None:
        self._effects = effects
        self._actions = actions
        self._policies = policies

    def handle(
        self, job: JobRecord, member: MemberRecord, event: ev.MemberEvent, now: float
    ) -> None:
        """Handle an event of the present attempt of a member."""
        if isinstance(event, ev.MemberPrepares):
            member.is_preparing = member.state == st.PENDING
            member.node = event.node
        elif isinstance(event, ev.MemberRan):
            if member.state == st.PENDING:
                member.node = event.node
                member.started = now
                self._actions.move(job, member, st.RUNNING, "")
            elif member.state in (st.RUNNING, st.TERMINATING):
                member.node = event.node  # the next process of the node may continue the member
        elif member.state == st.TERMINATING:
            self._gone(job, member, now)
        elif member.state not in (st.PENDING, st.RUNNING):
            return
        elif isinstance(event, ev.MemberLost):
            reason = event.reason or "evicted"
            why = self._why_not_requeued(job, member, event, reason, now)
            if why:
                member.ended = now
                self._actions.move(job, member, st.FAILED, reason)
                self._actions.finish(job, st.FAILED, why, now)
                return
            self._actions.wait_again(job, member, reason)
            self._policies.follow(job, member, st.POD_EVICTED, f"{member.name}: {reason}", now)
        elif isinstance(event, ev.MemberExited):
            self._exited(job, member, event, now)

    def _why_not_requeued(
        self, job: JobRecord, member: MemberRecord, event: ev.MemberLost, reason: str, now: float
    ) -> str:
        """Return why the job is not requeued after a running member lost its place by this event;
        "" if nothing prevents that.
        """
        if event.is_held_against:
            why = self._one_more_death(member, reason, now, is_of_node=True)
            if why:
                return why
        rule = job.spec.timing.requeue
        has_run = member.state == st.RUNNING and job.state in time_limits.TIMED
        cause = PREEMPTED if event.is_preempted else NODE
        if has_run and rule is not None and cause not in rule.reasons:
            return f"{member.name}: {reason}; the job's requeue.reasons do not include this"
        return ""

    def _one_more_death(
        self, member: MemberRecord, reason: str, now: float, is_of_node: bool = False
    ) -> str:
        """Count one more death of a member's node or parent process. Returns why the member is
        stopped because of the number of deaths; "" if it is not stopped.
        """
        member.node_deaths = with_one_more(member.node_deaths, now)
        member.parents_killed = 0 if len(member.node_deaths) == 1 else member.parents_killed
        member.parents_killed += not is_of_node
        if len(member.node_deaths) < MOST:
            return ""
        why = why_stopped if member.parents_killed else why_not_again
        member.node_deaths = []  # a user who starts the job again knows about these failures
        return why(member.name, reason)

    def _exited(
        self, job: JobRecord, member: MemberRecord, event: ev.MemberExited, now: float
    ) -> None:
        member.exit_code, member.signal = event.exit_code, event.signal
        member.ended = now
        if event.exit_code == 0:
            self._actions.move(job, member, st.SUCCEEDED, event.reason)
            if job.count(st.SUCCEEDED, group=member.group) == len(job.groups[member.group]):
                reason = f"all members of {member.group} succeeded"
                self._policies.follow(job, None, st.TASK_COMPLETED, reason, now, group=member.group)
            return
        reason = event.reason or f"exit code {event.exit_code}"
        if event.is_unprepared:  # each further start would fail in the same way
            self._actions.move(job, member, st.FAILED, reason)
            self._actions.finish(job, st.FAILED, f"{member.name}: {reason}", now)
            return
        if event.is_parent_killed:
            why = self._one_more_death(member, reason, now)
            if why:
                self._actions.move(job, member, st.FAILED, reason)
                self._actions.finish(job, st.FAILED, why, now)
                return
        if self._starts_again_in_place(job, member):
            member.attempt += 1
            member.asked_s = job.ran_s
            member.reason = reason
            resting.crashed(member, resting.lived_s(member, now), now)
            self._effects.restart_members(job, [member])
            return
        self._actions.move(job, member, st.FAILED, reason)
        why = f"{member.name}: {reason}"
        rule = job.spec.timing.requeue
        is_named = rule is not None and event.exit_code in rule.exit_codes
        lived_s = resting.lived_s(member, now)
        if is_named and self._actions.requeue(job, why, now, lived_s):
            return
        if not self._policies.follow(job, member, st.POD_FAILED, why, now, code=event.exit_code):
            self._policies.follow(job, member, st.TASK_FAILED, why, now)

    def _starts_again_in_place(self, job: JobRecord, member: MemberRecord) -> bool:
        group = job.spec.group(member.group)
        assert group is not None
        used = job.restarts.get(group.name, 0)
        if group.template.restart == "Never" or used >= group.max_retry != UNLIMITED:
            return False
        if job.state not in (st.PENDING, st.RUNNING, st.RESTARTING):
            return False
        job.restarts[group.name] = used + 1
        return True

    def _gone(self, job: JobRecord, member: MemberRecord, now: float) -> None:
        """Note that a member has ended because its job had asked it to end."""
        member.ended = now
        if member.retires:
            left = [m for m in job.groups[member.group] if m is not member]
            job.replace_group(member.group, left)
        elif member.comes_back:
            self._actions.wait_again(job, member, member.reason)
        else:
            self._actions.move(job, member, st.ENDED, member.reason)
