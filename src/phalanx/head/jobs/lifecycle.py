"""The life cycle of jobs: Volcano's states and policies, its traps decided for the user.

Pure: `handle(event, now)` and `tick(now)` change records and ask a shell for effects. The shell
reports what comes of it by later events, never from within an effect.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from phalanx.head.jobs import events as ev
from phalanx.head.jobs import judging
from phalanx.head.jobs.resizing import fit_members
from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import (
    WHOLE,
    DueAction,
    JobCommandError,
    JobRecord,
    MemberRecord,
    new_job,
)
from phalanx.model.jobs.spec import UNLIMITED, JobSpec
from phalanx.model.lifecycle import move

TARGETED = (st.RESTART_TASK, st.RESTART_POD, st.RESTART_PARTITION)
"""Actions that are about some members and mean nothing without them."""


class Alarm(NamedTuple):
    """When something is to be done about a job."""

    at: float
    job: str


class JobEffects(Protocol):
    """What the machine asks of its shell."""

    def want_members(self, job: JobRecord, members: list[MemberRecord]) -> None:
        """Find places for these and start them; MemberRan, MemberExited or MemberLost follow."""
        ...

    def restart_members(self, job: JobRecord, members: list[MemberRecord]) -> None:
        """Start the processes of these again where they were, as the next attempt."""
        ...

    def end_members(self, job: JobRecord, members: list[MemberRecord], reason: str) -> None:
        """End these: SIGTERM, their grace period, SIGKILL; at once where they have no place yet.
        MemberExited or MemberLost follows for each."""
        ...

    def publish(self, job: JobRecord) -> None:
        """Something about it changed: keep it, and notify who watches."""
        ...

    def forget(self, job: JobRecord) -> None:
        """It is gone: drop its record and what its members left behind."""
        ...


class JobTable:
    """All jobs, by `namespace/name`."""

    def __init__(self, effects: JobEffects) -> None:
        self._effects = effects
        self._jobs: dict[str, JobRecord] = {}
        self._alarms: list[Alarm] = []

    def get(self, uid: str) -> JobRecord | None:
        """The job of that name."""
        return self._jobs.get(uid)

    def all(self) -> list[JobRecord]:
        """Every job, oldest first."""
        return list(self._jobs.values())

    def restore(self, records: Iterable[JobRecord]) -> None:
        """Go on with the jobs that a store has kept. What was asked for before is asked for again:
        the shell knows what of it has been done."""
        for job in records:
            self._jobs[job.uid] = job
            self._set_alarms(job)
            for state, ask in ((st.PENDING, True), (st.TERMINATING, False)):
                members = [m for m in job.members if m.state == state]
                if members and ask:
                    self._effects.want_members(job, members)
                elif members:
                    self._effects.end_members(job, members, job.reason)

    def next_alarm(self) -> float | None:
        """When `tick` has something to do."""
        return self._alarms[0].at if self._alarms else None

    def due(self, now: float) -> str | None:
        """The job that `tick` begins with, if there is one by then."""
        return self._alarms[0].job if self._alarms and self._alarms[0].at <= now else None

    # ---- events ------------------------------------------------------------------------------

    def handle(self, event: ev.Event, now: float) -> None:
        """Take one event in. Raises JobCommandError for a command that does not fit; nothing has
        changed then. News of members that are not there any more is passed over."""
        if isinstance(event, ev.Submitted):
            self._submit(event.spec, event.request, now)
            return
        job = self._jobs.get(event.job)
        if isinstance(event, ev.MemberEvent):
            member = job.member(event.group, event.index) if job else None
            if job is None or member is None or member.attempt != event.attempt:
                return
            self._news(job, member, event, now)
        elif job is None:
            raise JobCommandError(f"there is no job {event.job!r}")
        elif isinstance(event, ev.Commanded):
            self._command(job, event, now)
        elif isinstance(event, ev.Resized):
            self._resize(job, event.spec, now)
        elif isinstance(event, ev.Deleted):
            job.is_deleted = True
            if st.TERMINATE_JOB in judging.ALLOWED[job.state]:
                self._act(job, st.TERMINATE_JOB, "the job was deleted", now)
        else:
            self._policy(job, None, st.UNKNOWN_EVENT, "the gang cannot be placed whole", now)
        self._settle(job, now)

    def tick(self, now: float) -> None:
        """Do what has become due: delayed actions, and forgetting jobs that ended long ago."""
        while self.due(now) is not None:
            self.tick_one(now)

    def tick_one(self, now: float) -> None:
        """Do what has become due of one job."""
        _, uid = heapq.heappop(self._alarms)
        job = self._jobs.get(uid)
        if job is None:
            return
        if self._is_over(job, now):
            self._drop(job)
            return
        due = [d for d in job.due if d.at <= now]
        if due:
            job.due = [d for d in job.due if d.at > now]
            for action in due:
                self._do_due(job, action, now)
            self._settle(job, now)

    def _submit(self, spec: JobSpec, request: bytes, now: float) -> None:
        if spec.uid in self._jobs:
            state = self._jobs[spec.uid].state
            raise JobCommandError(
                f"there is a job {spec.uid} already ({state}); take another name, or delete it"
            )
        job = self._jobs[spec.uid] = new_job(spec, now)
        job.request = request
        job.note(now, "", st.PENDING, "submitted")
        try:
            self._settle(job, now)
        except BaseException:
            self._drop(job)  # who submits it is answered with this error
            raise

    def _command(self, job: JobRecord, event: ev.Commanded, now: float) -> None:
        allowed = judging.ALLOWED[job.state]
        if event.action not in allowed:
            can = f"; it can have {', '.join(sorted(allowed))}" if allowed else " any more"
            raise JobCommandError(
                f"job {job.uid} is {job.state}: it can have no {event.action}{can}"
            )
        chosen = judging.targets(job, event.action, event.group, event.index)
        if event.action in TARGETED and not chosen:
            raise JobCommandError(f"job {job.uid} has no member {event.group}-{event.index}")
        self._act(job, event.action, "by command", now, group=event.group, index=event.index)

    # ---- news of members ---------------------------------------------------------------------

    def _news(
        self, job: JobRecord, member: MemberRecord, event: ev.MemberEvent, now: float
    ) -> None:
        if isinstance(event, ev.MemberRan):
            if member.state == st.PENDING:
                member.node = event.node
                member.started = now
                self._move(job, member, st.RUNNING, "")
        elif member.state == st.TERMINATING:
            self._gone(job, member, now)
        elif member.state not in (st.PENDING, st.RUNNING):
            return
        elif isinstance(event, ev.MemberLost):
            reason = event.reason or "evicted"
            self._wait_again(job, member, reason)
            self._policy(job, member, st.POD_EVICTED, f"{member.name}: {reason}", now)
        elif isinstance(event, ev.MemberExited):
            self._exited(job, member, event, now)

    def _exited(
        self, job: JobRecord, member: MemberRecord, event: ev.MemberExited, now: float
    ) -> None:
        member.exit_code = event.exit_code
        member.ended = now
        if event.exit_code == 0:
            self._move(job, member, st.SUCCEEDED, event.reason)
            if job.count(st.SUCCEEDED, group=member.group) == len(job.groups[member.group]):
                reason = f"all members of {member.group} succeeded"
                self._policy(job, None, st.TASK_COMPLETED, reason, now, group=member.group)
            return
        reason = event.reason or f"exit code {event.exit_code}"
        if self._starts_again_in_place(job, member):
            member.attempt += 1
            member.reason = reason
            self._effects.restart_members(job, [member])
            return
        self._move(job, member, st.FAILED, reason)
        why = f"{member.name}: {reason}"
        if not self._policy(job, member, st.POD_FAILED, why, now, code=event.exit_code):
            self._policy(job, member, st.TASK_FAILED, why, now)

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
        """A member has ended that was asked to."""
        member.ended = now
        if member.retires:
            left = [m for m in job.groups[member.group] if m is not member]
            job.replace_group(member.group, left)
        elif member.comes_back:
            self._wait_again(job, member, member.reason)
        else:
            self._move(job, member, st.ENDED, member.reason)

    def _wait_again(self, job: JobRecord, member: MemberRecord, reason: str) -> None:
        self._move(job, member, st.WAITING, reason)
        member.comes_back = False
        member.node = ""
        member.started = member.ended = member.exit_code = None

    # ---- policies ----------------------------------------------------------------------------

    def _policy(
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
        """Do what the job's policies say about an event. False when none does."""
        group = member.group if member else group
        policy = judging.find_policy(job, group, event, code)
        if policy is None:
            return False
        index = member.index if member else WHOLE
        if policy.timeout_s is None:
            charge = event not in judging.FREE_OF_CHARGE
            self._act(job, policy.action, reason, now, group=group, index=index, charge=charge)
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
        heapq.heappush(self._alarms, Alarm(due.at, job.uid))
        return True

    def _do_due(self, job: JobRecord, due: DueAction, now: float) -> None:
        """A delayed action, unless what caused it has passed: the job was restarted meanwhile, or
        the member runs or has succeeded, or has failed once more since."""
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
        self._act(job, due.action, reason, now, group=due.group, index=due.index, charge=charge)

    # ---- actions -----------------------------------------------------------------------------

    def _act(
        self,
        job: JobRecord,
        action: str,
        reason: str,
        now: float,
        *,
        group: str = "",
        index: int = WHOLE,
        charge: bool = False,
    ) -> None:
        """Do an action where the job's state has a use for it."""
        new = judging.ALLOWED[job.state].get(action)
        is_about_nobody = not judging.targets(job, action, group, index)
        if new is None or (action in TARGETED and is_about_nobody):
            return
        if new == st.RESTARTING:
            self._restart(job, action, reason, now, group, index, charge)
            return
        self._go(job, new, f"{action}: {reason}", now)
        self._end_all(job, f"{action}: {reason}")

    def _restart(
        self,
        job: JobRecord,
        action: str,
        reason: str,
        now: float,
        group: str,
        index: int,
        charge: bool,
    ) -> None:
        again = job.state == st.RESTARTING  # what else fails meanwhile belongs to this restart
        if charge and not again:
            if job.retries >= job.spec.max_retry:
                self._finish(job, st.FAILED, f"{reason}; all {job.retries} retries are used", now)
                return
            job.retries += 1
        if not again:
            self._go(job, st.RESTARTING, f"{action}: {reason}", now)
        chosen = judging.targets(job, action, group, index)
        if action == st.RESUME_JOB:
            chosen = [m for m in chosen if m.state != st.SUCCEEDED]
        elif action == st.RESTART_JOB:
            job.version += 1
        for name in {m.group for m in chosen} if action != st.RESTART_POD else ():
            job.restarts.pop(name, None)
        self._end(job, chosen, f"{action}: {reason}", comes_back=True)

    def _end_all(self, job: JobRecord, reason: str) -> None:
        """End what lives, for good or until the job is resumed."""
        job.version += 1
        job.due.clear()
        self._end(job, job.members, reason, comes_back=False)

    def _end(
        self, job: JobRecord, members: list[MemberRecord], reason: str, comes_back: bool
    ) -> None:
        asked = []
        for member in members:
            if member.state in (st.PENDING, st.RUNNING):
                self._move(job, member, st.TERMINATING, reason)
                asked.append(member)
            elif member.state in (st.SUCCEEDED, st.FAILED, st.ENDED):
                if comes_back:
                    self._wait_again(job, member, reason)
            elif member.state == st.WAITING and not comes_back:
                self._move(job, member, st.ENDED, reason)
            if member.state == st.TERMINATING:
                member.comes_back = comes_back
        if asked:
            self._effects.end_members(job, asked, reason)

    def _resize(self, job: JobRecord, spec: JobSpec, now: float) -> None:
        if job.is_finished or job.state in (st.TERMINATING, st.COMPLETING):
            raise JobCommandError(f"job {job.uid} is {job.state}: its size is of no use any more")
        surplus = fit_members(job, spec)
        self._end(job, surplus, "the job became smaller", comes_back=False)
        self._policy(job, None, st.JOB_UPDATED, "the job was changed", now)

    # ---- settling ----------------------------------------------------------------------------

    def _settle(self, job: JobRecord, now: float) -> None:
        """Go on as far as the members' states allow, then publish."""
        while self._step(job, now):
            pass
        job.changed = now
        self._effects.publish(job)
        if self._is_over(job, now):
            self._drop(job)

    def _step(self, job: JobRecord, now: float) -> bool:
        """One change of state; False when there is none to make."""
        if job.state in st.ENDING and not job.count(*judging.LIVE):
            self._finish(job, st.ENDING[job.state], job.reason, now)
            return True
        if job.state == st.RESTARTING and not job.count(st.TERMINATING):
            self._go(job, st.PENDING, job.reason, now)
            return True
        if job.state not in (st.PENDING, st.RUNNING):
            return False
        self._release(job, now)
        here = job.count(st.RUNNING, st.SUCCEEDED, st.FAILED)
        minimum = judging.gang_minimum(job)
        if job.state == st.PENDING and here >= minimum:
            job.started = now if job.started is None else job.started
            self._go(
                job,
                st.RUNNING,
                f"{here} members run or have ended, of {minimum} that it needs",
                now,
            )
            return True
        decided = judging.verdict(job)
        if decided is not None and (job.state == st.RUNNING or not job.count(*judging.LIVE)):
            self._finish(job, *decided, now)
            return True
        if job.state == st.RUNNING and here + job.count(st.TERMINATING) < minimum:
            reason = f"{here} members run or have ended, of {minimum} that it needs"
            self._go(job, st.PENDING, reason, now)
            return True
        return False

    def _release(self, job: JobRecord, now: float) -> None:
        """Ask for the members whose group need not wait (any longer)."""
        asked: list[MemberRecord] = []
        for group in job.spec.groups:
            if job.count(st.WAITING, group=group.name) and judging.is_released(job, group):
                asked += [m for m in job.groups[group.name] if m.state == st.WAITING]
        for member in asked:
            member.attempt += 1
            self._move(job, member, st.PENDING, member.reason)
        if asked:
            self._effects.want_members(job, asked)
        for member in asked:
            policy = judging.find_policy(job, member.group, st.POD_PENDING)
            if policy is not None and policy.timeout_s is not None:
                self._policy(job, member, st.POD_PENDING, f"{member.name} is pending", now)

    def _finish(self, job: JobRecord, state: str, reason: str, now: float) -> None:
        has_left = job.state in st.ENDING
        self._go(job, state, reason, now)
        if state == st.ABORTED:
            return  # it may be resumed
        job.finished = now
        if not has_left:
            self._end_all(job, f"the job is {state}")
        self._set_alarms(job)

    def _is_over(self, job: JobRecord, now: float) -> bool:
        if not job.is_finished or job.count(*judging.LIVE):
            return False
        ttl, finished = job.spec.ttl_s, job.finished
        return job.is_deleted or (
            ttl is not None and finished is not None and finished + ttl <= now
        )

    def _drop(self, job: JobRecord) -> None:
        del self._jobs[job.uid]
        self._effects.forget(job)

    def _set_alarms(self, job: JobRecord) -> None:
        for due in job.due:
            heapq.heappush(self._alarms, Alarm(due.at, job.uid))
        if job.finished is not None and job.spec.ttl_s is not None:
            heapq.heappush(self._alarms, Alarm(job.finished + job.spec.ttl_s, job.uid))

    def _go(self, job: JobRecord, state: str, reason: str, now: float) -> None:
        story = f"job {job.uid}: {[(t.old, t.new, t.reason) for t in job.history[-5:]]}"
        job.note(now, job.state, state, reason)
        job.state = move(st.JOB, "job", job.state, state, story)
        job.reason = reason

    def _move(self, job: JobRecord, member: MemberRecord, state: str, reason: str) -> None:
        story = f"member {member.name}, attempt {member.attempt}: {member.reason}"
        job.set_state(member, move(st.MEMBER, "member", member.state, state, story))
        member.reason = reason
