"""The life cycle of jobs: Volcano's states and policies. Where Volcano's rules surprise users, this
module decides in favour of users.

This module is pure: `handle(event, now, steady)` and `tick(now, steady)` change records and ask a
shell for effects. `now` is the wall-clock time. `steady` is the time of a clock that never goes
backwards; this clock measures the run times of gangs. The shell reports results by later events,
and never while an effect is being requested.
"""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.head.jobs import dependencies, judging, resting, time_limits
from phalanx.head.jobs import events as ev
from phalanx.head.jobs.actions import JobActions
from phalanx.head.jobs.alarms import Alarms
from phalanx.head.jobs.commands import JobCommands
from phalanx.head.jobs.counts import SUBMITTED
from phalanx.head.jobs.dependents import Dependents, check_known
from phalanx.head.jobs.effects import JobEffects
from phalanx.head.jobs.member_events import MemberEvents
from phalanx.head.jobs.policies import JobPolicies
from phalanx.head.jobs.retention import FinishedJobs, due_at
from phalanx.head.jobs.run_clock import RunClocks
from phalanx.model.jobs import states as st
from phalanx.model.jobs.dependencies import NEVER
from phalanx.model.jobs.records import JobCommandError, JobRecord, MemberRecord, new_job
from phalanx.model.jobs.spec import JobSpec
from phalanx.model.jobs.timing import TIMEOUT


class JobTable:
    """All jobs, by `namespace/name`."""

    def __init__(self, effects: JobEffects) -> None:
        self._effects = effects
        self._jobs: dict[str, JobRecord] = {}
        self._alarms = Alarms()
        self._finished = FinishedJobs()
        self.clocks = RunClocks(effects.is_here)
        self._dependents = Dependents(self._jobs)
        self._actions = JobActions(effects, self._alarms)
        self._policies = JobPolicies(self._actions, self._alarms)
        self._commands = JobCommands(self._actions, self._policies)
        self._members = MemberEvents(effects, self._actions, self._policies)

    def get(self, uid: str) -> JobRecord | None:
        """Return the job with that name."""
        return self._jobs.get(uid)

    def is_first(self, uid: str, word: str) -> bool:
        """Whether all jobs that were submitted earlier with this singleton word, or under this
        name, have finished.
        """
        return self._dependents.is_first(uid, word)

    def all(self) -> list[JobRecord]:
        """Return every job, oldest first."""
        return list(self._jobs.values())

    def restore(self, records: Iterable[JobRecord], now: float, steady: float) -> None:
        """Restore stored jobs. Effects that an earlier head requested are requested again; the
        shell knows which of them were carried out.
        """
        stored = list(records)
        for over in sorted((one for one in stored if one.finished is not None), key=_ended):
            if (surplus := self._finished.add(over.uid)) is not None:
                self._alarms.by_day(now, surplus)
        for job in stored:
            self._jobs[job.uid] = job
            self.clocks.begin(job, now, steady)
            dependencies.clock_set_back(job, now)
            self._set_alarms(job)
            self._dependents.known_again(job)
            self._look_again(job, now, steady)
            if job.count(st.WAITING, st.BLOCKED) and not time_limits.is_held_back(job, now):
                self._alarms.steady(steady, job.uid)  # a rest has ended while no head ran
            if job.spec.array is not None or (job.outcomes and job.queued is None):
                # This takes effect when all jobs are restored.
                self._effects.notify_dependents([job.uid])
            if job.spec.array is not None and (job.is_held or job.state in st.ENDING):
                is_suspended = job.state == st.ABORTING
                self._effects.end_array_tasks(
                    job, only_pending=job.is_held, comes_back=job.is_held or is_suspended
                )
            for state, ask in ((st.PENDING, True), (st.TERMINATING, False)):
                members = [m for m in job.members if m.state == state]
                if members and ask:
                    self._effects.want_members(job, members)
                elif members:
                    self._effects.end_members(job, members, job.reason)

    def connections_changed(self, uid: str, now: float, steady: float) -> None:
        """Update the clock of a job's gang, because news of its members begins or ceases to
        arrive.
        """
        job = self._jobs.get(uid)
        if job is not None:
            self.clocks.keep(job, steady)
            self.clocks.look(job, now, steady)
            self._look_again(job, now, steady)

    def clock_stepped(self, step_s: float, now: float, steady: float) -> None:
        """Shift the times in all jobs' records, after the clock was stepped by `step_s` seconds to
        `now`. The step does not change when jobs start or end, except for jobs that start at a
        given date.
        """
        self._alarms.forget_by_day()
        for job in self._jobs.values():
            job.clock_stepped(step_s)
            self._set_alarms(job)
            self._look_again(job, now, steady)
            self._effects.publish(job)

    def due(self, now: float, steady: float) -> str | None:
        """Return the job for which `tick` must be called first; None if none is due."""
        return self._alarms.due(now, steady)

    # ---- events ------------------------------------------------------------------------------

    def handle(self, event: ev.Event, now: float, steady: float) -> None:
        """Handle an event. Events of members that no longer exist are ignored. Raises
        JobCommandError for a command that is not possible; the job is then unchanged.
        """
        if isinstance(event, ev.Submitted):
            self._submit(event.spec, event.request, now, steady)
            return
        job = self._jobs.get(event.job)
        if isinstance(event, ev.MemberEvent):
            member = job.member(event.group, event.index) if job else None
            if job is None or member is None or member.attempt != event.attempt:
                return
            self.clocks.keep(job, steady)
            self._members.handle(job, member, event, now)
            self.clocks.look(job, now, steady)
            if isinstance(event, ev.MemberRan) and member.state == st.RUNNING:
                self.clocks.heard(job, member, event.ran_s, now)
        elif isinstance(event, ev.DependencyChanged | ev.ArrayTasksChanged) and job is None:
            return
        elif job is None:
            raise JobCommandError(f"there is no job {event.job!r}")
        else:
            self.clocks.keep(job, steady)
            self._asked(job, event, now)
        self._settle(job, now, steady)

    def _asked(self, job: JobRecord, event: ev.JobEvent, now: float) -> None:
        """Handle a request about a job, or an event of its gang."""
        match event:
            case ev.Commanded():
                self._commands.act(job, event, now)
            case ev.Resized():
                self._commands.resize(job, event.spec, now)
            case ev.Held():
                self._commands.hold(job, event.is_held, now)
            case ev.Changed():
                self._commands.change(job, event.spec, now)
            case ev.Deleted():
                job.is_deleted = True
                if st.TERMINATE_JOB in judging.ALLOWED[job.state]:
                    self._actions.act(job, st.TERMINATE_JOB, "the job was deleted", now)
            case ev.DependencyChanged() | ev.ArrayTasksChanged():
                pass  # `settle` takes care of the job later
            case _:
                self._policies.follow(
                    job, None, st.UNKNOWN_EVENT, "the gang cannot be placed whole", now
                )

    def tick(self, now: float, steady: float) -> None:
        """Do what is due: take delayed actions, end jobs at their time limits, and forget old
        finished jobs.
        """
        while self.due(now, steady) is not None:
            self.tick_one(now, steady)

    def tick_one(self, now: float, steady: float) -> None:
        """Do what is due for one job."""
        job = self._jobs.get(self._alarms.pop(now, steady))
        if job is None:
            return
        if self._is_over(job, now):
            self._drop(job)
            return
        self.clocks.keep(job, steady)
        self.clocks.set_back(job, now, steady)
        dependencies.clock_set_back(job, now)
        due = [d for d in job.due if d.at <= now]
        job.due = [d for d in job.due if d.at > now]
        for action in due:
            self._policies.do_due(job, action, now)
        waits = bool(job.count(st.WAITING, st.BLOCKED))
        may_begin = waits and not time_limits.is_held_back(job, now)
        is_time = time_limits.time_is_up(job, now) or time_limits.must_warn(job, now)
        if due or may_begin or is_time:
            self._settle(job, now, steady)
        else:
            self._look_again(job, now, steady)

    def _submit(self, spec: JobSpec, request: bytes, now: float, steady: float) -> None:
        if spec.uid in self._jobs:
            state = self._jobs[spec.uid].state
            raise JobCommandError(
                f"job {spec.uid} exists already ({state}); use another name, or delete it: "
                f"`phalanx delete {spec.uid.removeprefix('default/')}`"
            )
        check_known(spec, self._jobs)
        job = self._jobs[spec.uid] = new_job(spec, now)
        self._dependents.add(job)
        job.request = request
        job.note(now, "", st.PENDING, "submitted")
        self.clocks.begin(job, now, steady)
        self._set_alarms(job)
        try:
            self._settle(job, now, steady)
        except BaseException:
            self._drop(job)  # the submitter gets this error as the answer
            raise
        self._effects.count(job, SUBMITTED)

    # ---- time --------------------------------------------------------------------------------

    def _runs_out_of_time(self, job: JobRecord, now: float) -> bool:
        """End or requeue a job whose time is up, and warn its members shortly before. Returns
        whether the time is up.
        """
        if time_limits.is_timeless(job):
            return False
        over = time_limits.time_is_up(job, now)
        if over is None:
            if time_limits.must_warn(job, now):
                signal = job.spec.timing.signal
                assert signal is not None
                job.is_warned = True
                self._effects.warn_members(job, signal)
            return False
        state, reason = over
        rule = job.spec.timing.requeue
        is_named = state == st.TIMED_OUT and rule is not None and TIMEOUT in rule.reasons
        if not (is_named and self._actions.requeue(job, reason, now)):
            self._actions.run_out(job, state, reason, now)
        return True

    def _look_again(self, job: JobRecord, now: float, steady: float) -> None:
        """Set an alarm for the next time at which the job must be checked."""
        if not time_limits.is_timeless(job):
            wait_s = time_limits.next_look_s(job, now, self.clocks.is_going(job))
            if wait_s is not None:
                self._alarms.steady(steady + wait_s, job.uid)
        moment = dependencies.next_moment(job, now)
        if moment is not None:
            self._alarms.steady(steady + moment - now, job.uid)
        if rest_s := resting.left_s(job, now):
            self._alarms.steady(steady + max(rest_s, time_limits.SOONEST_S), job.uid)

    # ---- settling ----------------------------------------------------------------------------

    def _settle(self, job: JobRecord, now: float, steady: float) -> None:
        """Take all steps of the job that its members' states and the time allow, then publish the
        job.
        """
        self._note_dependencies(job, now)
        self._go_on(job, now, steady)
        if self._ends_in_vain(job, now) or self._runs_out_of_time(job, now):
            self._go_on(job, now, steady)
        self._look_again(job, now, steady)
        job.changed = now
        self._effects.publish(job)
        if told := self._dependents.to_tell(job):
            self._effects.notify_dependents(told)
        surplus = self._finished.add(job.uid) if job.finished is not None else None
        for uid in (job.uid, surplus or job.uid, *self._dependents.drop_heard(job)):
            settled = self._jobs.get(uid)
            if settled is not None and self._is_over(settled, now):
                self._drop(settled)

    def _go_on(self, job: JobRecord, now: float, steady: float) -> None:
        """Take all steps of the job that its members' states allow, and update the clock of its
        gang.
        """
        while self._step(job, now):
            pass
        self.clocks.look(job, now, steady)

    def _note_dependencies(self, job: JobRecord, now: float) -> None:
        """Note the outcomes of the jobs for which this job waits, and set an alarm for the next
        check.
        """
        dependencies.look(job, self, now)
        moment = dependencies.next_moment(job, now)
        if moment is not None:
            self._alarms.by_day(moment, job.uid)

    def _ends_in_vain(self, job: JobRecord, now: float) -> bool:
        """End a job that would otherwise wait for ever. Returns whether the job was ended."""
        is_waiting = job.state in (st.PENDING, st.ABORTED)
        if not is_waiting or dependencies.verdict(job, now) != NEVER:
            return False
        why = dependencies.why_never(job, now)
        self._actions.run_out(job, st.DEPENDENCY_FAILED, why, now)
        return True

    def _step(self, job: JobRecord, now: float) -> bool:
        """Make one change of state. Returns False if no change is possible."""
        if job.state in st.ENDING and not job.count(*judging.LIVE):
            self._actions.finish(job, job.ends_as or st.ENDING[job.state], job.reason, now)
            return True
        if job.state == st.RESTARTING and not job.count(st.TERMINATING):
            self._actions.go(job, st.PENDING, job.reason, now)
            return True
        if job.state not in (st.PENDING, st.RUNNING):
            return False
        if job.spec.array is not None:
            return self._array_step(job, now)
        if time_limits.is_held_back(job, now):
            return False
        self._release(job, now)
        here = job.count(st.RUNNING, st.SUCCEEDED, st.FAILED)
        minimum = judging.gang_minimum(job)
        if job.state == st.PENDING and here >= minimum:
            self._actions.run(job, _at_its_minimum(here, minimum), now)
            return True
        decided = judging.verdict(job)
        if decided is not None and (job.state == st.RUNNING or not job.count(*judging.LIVE)):
            self._actions.finish(job, *decided, now)
            return True
        is_short = here < minimum and here + job.count(st.TERMINATING) < minimum
        if job.state == st.RUNNING and is_short:
            reason = _at_its_minimum(here, minimum)
            self._actions.go(job, st.PENDING, reason, now)
            return True
        return False

    def _array_step(self, job: JobRecord, now: float) -> bool:
        """Make one change of state of an array. Returns False if no change is possible."""
        if decided := judging.array_verdict(job):
            self._actions.finish(job, *decided, now)
            return True
        if job.state == st.PENDING and job.count(st.RUNNING, st.SUCCEEDED, st.FAILED):
            self._actions.run(job, "its array tasks run", now)
            return True
        if job.count(st.WAITING, st.BLOCKED) and not time_limits.is_held_back(job, now):
            self._effects.want_array_tasks(job)
        return False

    def _release(self, job: JobRecord, now: float) -> None:
        """Request places for the members of groups that wait for no other groups now."""
        asked: list[MemberRecord] = []
        for group in job.spec.groups:
            if job.count(st.WAITING, group=group.name) and judging.is_released(job, group):
                asked += [m for m in job.groups[group.name] if m.state == st.WAITING]
        for member in asked:
            member.attempt += 1
            member.asked_s = job.ran_s
            self._actions.move(job, member, st.PENDING, member.reason)
        if asked:
            self._effects.want_members(job, asked)
        for member in asked:
            policy = judging.find_policy(job, member.group, st.POD_PENDING)
            if policy is not None and policy.timeout_s is not None:
                self._policies.follow(job, member, st.POD_PENDING, f"{member.name} is pending", now)

    def _is_over(self, job: JobRecord, now: float) -> bool:
        if not dependencies.is_over(job) or self._dependents.is_awaited(job):
            return False  # a job that waits for this job must hear of its end first
        return job.is_deleted or self._finished.is_due(job, now)

    def _drop(self, job: JobRecord) -> None:
        del self._jobs[job.uid]
        self._finished.forget(job.uid)
        self._dependents.forget(job)
        self.clocks.forget(job)
        self._effects.forget(job)

    def _set_alarms(self, job: JobRecord) -> None:
        for due in job.due:
            self._alarms.by_day(due.at, job.uid)
        begins = time_limits.begins(job)
        if begins is not None and job.count(st.WAITING, st.BLOCKED):
            self._alarms.by_day(begins, job.uid)
        if job.rests_until is not None and job.count(st.WAITING):
            self._alarms.by_day(job.rests_until, job.uid)
        if job.finished is not None:
            self._alarms.by_day(due_at(job), job.uid)
        for one in job.outcomes:
            if one.since is not None and job.queued is None:
                self._alarms.by_day(one.since, job.uid)


def _ended(job: JobRecord) -> float:
    return job.finished or 0.0


def _at_its_minimum(here: int, minimum: int) -> str:
    has = "has" if here == 1 else "have"
    if here == minimum:
        return f"the {judging.members(here)} that it needs {has} started"
    return f"{judging.members(here)} {has} started, and it needs {minimum}"
