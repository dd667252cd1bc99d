"""Actions on a job: ending or restarting members, ending the job, or making it wait again."""

from __future__ import annotations

from phalanx.head.jobs import judging, resting, time_limits
from phalanx.head.jobs.alarms import Alarms
from phalanx.head.jobs.counts import BEGAN, ENDED, RETRIED
from phalanx.head.jobs.effects import JobEffects
from phalanx.head.jobs.retention import due_at, without_environment
from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import WHOLE, JobRecord, MemberRecord
from phalanx.model.jobs.spec import UNLIMITED
from phalanx.model.lifecycle import move

TARGETED = (st.RESTART_TASK, st.RESTART_POD, st.RESTART_PARTITION)
"""The actions that apply to chosen members of a job, and do nothing if no members are given."""


class JobActions:
    """Changes job records, and asks the shell for the consequences."""

    def __init__(self, effects: JobEffects, alarms: Alarms) -> None:
        self._effects = effects
        self._alarms = alarms

    def act(
        self,
        job: JobRecord,
        action: str,
        reason: str,
        now: float,
        *,
        group: str = "",
        index: int = WHOLE,
        charge: bool = False,
        lived_s: float | None = None,
    ) -> None:
        """Take an action if the job's state allows it.

        `charge`: whether a restart uses up one of the job's retries. `lived_s`: the seconds for
        which members lived, if the action is taken because they have ended; None for any other
        cause.
        """
        new = judging.ALLOWED[job.state].get(action)
        is_about_nobody = not judging.targets(job, action, group, index)
        if new is None or (action in TARGETED and is_about_nobody):
            return
        if new == st.RESTARTING:
            self._restart(job, action, reason, now, group, index, charge, lived_s)
            return
        self.go(job, new, f"{action}: {reason}", now)
        self.end_all(job, f"{action}: {reason}")

    def _restart(
        self,
        job: JobRecord,
        action: str,
        reason: str,
        now: float,
        group: str,
        index: int,
        charge: bool,
        lived_s: float | None,
    ) -> None:
        again = job.state == st.RESTARTING  # further failures are part of the same restart
        if charge and not again:
            if job.retries >= job.spec.max_retry != UNLIMITED:
                used = _used_up(job.retries)
                self.finish(job, st.FAILED, f"{reason}{used}", now)
                return
            job.retries += 1
            self._effects.count(job, RETRIED)
        if not again:
            self.go(job, st.RESTARTING, f"{action}: {reason}", now)
            if lived_s is not None and resting.crashed(job, lived_s, now):
                # Otherwise the other members would begin without the members that rest.
                self.withdraw(job, reason)
        chosen = judging.targets(job, action, group, index)
        if action == st.RESUME_JOB:
            chosen = [m for m in chosen if m.state != st.SUCCEEDED]
        elif action == st.RESTART_JOB:
            job.version += 1
        for name in {m.group for m in chosen} if action != st.RESTART_POD else ():
            job.restarts.pop(name, None)
        self.end(job, chosen, f"{action}: {reason}", comes_back=True)

    def end_all(self, job: JobRecord, reason: str) -> None:
        """End all living members, for good or until the job is resumed."""
        job.version += 1
        job.due.clear()
        if job.spec.array is not None:
            comes_back = job.state == st.ABORTING
            self._effects.end_array_tasks(job, only_pending=False, comes_back=comes_back)
        self.end(job, job.members, reason, comes_back=False)

    def end(
        self, job: JobRecord, members: list[MemberRecord], reason: str, comes_back: bool
    ) -> None:
        """End these members. With `comes_back`, they start again afterwards."""
        asked = []
        for member in members:
            if member.state in (st.PENDING, st.RUNNING):
                self.move(job, member, st.TERMINATING, reason)
                asked.append(member)
            elif member.state in (st.SUCCEEDED, st.FAILED, st.ENDED):
                if comes_back:
                    self.wait_again(job, member, reason)
            elif member.state == st.WAITING and not comes_back:
                self.move(job, member, st.ENDED, reason)
            if member.state == st.TERMINATING:
                member.comes_back = comes_back
        if asked:
            self._effects.end_members(job, asked, reason)

    def withdraw(self, job: JobRecord, reason: str) -> None:
        """End pending members, so that the job requests no places for now."""
        if job.spec.array is not None:
            self._effects.end_array_tasks(job, only_pending=True, comes_back=True)
        pending = [m for m in job.members if m.state == st.PENDING]
        job.due = [due for due in job.due if due.event != st.POD_PENDING]
        self.end(job, pending, reason, comes_back=True)

    def requeue(
        self, job: JobRecord, reason: str, now: float, lived_s: float | None = None
    ) -> bool:
        """Restart the job by its requeue rule. Returns False if the job has no such rule, was
        already requeued as often as the rule allows, or neither waits nor runs. `lived_s` as in
        `act`.
        """
        rule = job.spec.timing.requeue
        if rule is None or job.state not in time_limits.TIMED or job.requeues >= rule.most:
            return False
        job.requeues += 1
        self._effects.count(job, RETRIED)
        reason = f"{reason}; requeue {job.requeues} of {rule.most}"
        self.act(job, st.RESTART_JOB, reason, now, lived_s=lived_s)
        return True

    def run_out(self, job: JobRecord, state: str, reason: str, now: float) -> None:
        """End the members of a job whose time is up. The job then ends in `state`."""
        job.ends_as = state
        self.go(job, st.TERMINATING, reason, now)
        self.end_all(job, reason)

    def run(self, job: JobRecord, reason: str, now: float) -> None:
        """Note that enough members are running."""
        if job.started is None:
            job.started = now
            self._effects.count(job, BEGAN)
        self.go(job, st.RUNNING, reason, now)

    def finish(self, job: JobRecord, state: str, reason: str, now: float) -> None:
        """Note that the job is over or suspended."""
        has_left = job.state in st.ENDING
        self.go(job, state, reason, now)
        if state == st.ABORTED:
            return  # the job may be resumed
        job.finished = now
        self._effects.count(job, ENDED)
        if job.spec.array is not None:
            for waits in (st.WAITING, st.BLOCKED):
                job.count_element(waits, st.ENDED, job.count(waits))
        if not has_left:
            self.end_all(job, f"the job is {state}")
        job.spec = without_environment(job.spec)
        self._alarms.by_day(due_at(job), job.uid)

    def wait_again(self, job: JobRecord, member: MemberRecord, reason: str) -> None:
        """Make a member wait as it did before its first start."""
        self.move(job, member, st.WAITING, reason)
        member.comes_back = False
        member.node = ""
        member.started = member.ended = member.exit_code = member.rests_until = None
        member.signal = 0

    def go(self, job: JobRecord, state: str, reason: str, now: float) -> None:
        """Move the job to a state. Raises IllegalTransition."""
        told = job.history[-5:]
        job.note(now, job.state, state, reason)
        job.state = move(st.JOB, f"job {job.uid}", job.state, state, told)
        job.reason = reason

    def move(self, job: JobRecord, member: MemberRecord, state: str, reason: str) -> None:
        """Move a member to a state. Raises IllegalTransition."""
        context = f"member {member.name}, attempt {member.attempt}: {member.reason}"
        member.is_preparing = False
        job.set_state(member, move(st.MEMBER, "member", member.state, state, context))
        member.reason = reason


def _used_up(retries: int) -> str:
    """Return the last clause of a sentence about a job that has failed: that all its retries are
    used.
    """
    if not retries:
        return ""
    return "; its 1 retry is used" if retries == 1 else f"; all {retries} retries are used"
