"""Applies the policies of jobs to events. A policy takes an action, immediately or after a
delay.
"""

from __future__ import annotations

from phalanx.head.jobs import judging, resting
from phalanx.head.jobs.actions import JobActions
from phalanx.head.jobs.alarms import Alarms
from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import WHOLE, DueAction, JobRecord, MemberRecord


class JobPolicies:
    """Finds the policy that applies to an event, and takes its action."""

    def __init__(self, actions: JobActions, alarms: Alarms) -> None:
        self._actions = actions
        self._alarms = alarms

    def follow(
        self,
        job: JobRecord,
        member: MemberRecord | None,
        event: str,
        reason: str,
        now: float,
        *,
        group: str = "",
        code: int | None = None,
    ) -> bool:
        """Take the action that the job's policies define for an event. Returns False if no policy
        applies.
        """
        group = member.group if member else group
        policy = judging.find_policy(job, group, event, code)
        if policy is None:
            return False
        index = member.index if member else WHOLE
        if policy.timeout_s is None:
            charge = event not in judging.FREE_OF_CHARGE
            lived_s = resting.lived_before(job, event, group, index, now)
            self._actions.act(
                job,
                policy.action,
                reason,
                now,
                group=group,
                index=index,
                charge=charge,
                lived_s=lived_s,
            )
            return True
        due = DueAction(
            at=now + policy.timeout_s,
            action=policy.action,
            event=event,
            version=job.version,
            group=group,
            index=index,
            attempt=member.attempt if member else 0,
        )
        job.due.append(due)
        self._alarms.by_day(due.at, job.uid)
        return True

    def do_due(self, job: JobRecord, due: DueAction, now: float) -> None:
        """Take a delayed action, unless its cause is gone: the job has restarted, or the member now
        runs, has succeeded, or has failed again.
        """
        if due.version != job.version or job.state not in (st.PENDING, st.RUNNING):
            return
        if due.index != WHOLE:
            member = job.member(due.group, due.index)
            if member is None or member.state in (st.RUNNING, st.SUCCEEDED):
                return
            later = member.attempt > due.attempt
            if later and not (due.event == st.POD_EVICTED and member.state == st.PENDING):
                return
        charge = due.event not in judging.FREE_OF_CHARGE
        reason = f"{due.event} of {due.group or 'the job'} lasted"
        lived_s = resting.lived_before(job, due.event, due.group, due.index, now)
        self._actions.act(
            job,
            due.action,
            reason,
            now,
            group=due.group,
            index=due.index,
            charge=charge,
            lived_s=lived_s,
        )
