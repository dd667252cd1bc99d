"""The life cycle of cron jobs: when each makes its next job, and which old jobs are deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from phalanx.head.internal_errors import InternalErrors
from phalanx.head.jobs import events as ev
from phalanx.head.jobs.job_gangs import JobGangs
from phalanx.head.state_store import StateStore
from phalanx.manifests.cron import Schedule, parse_schedule
from phalanx.model.ids import JobId
from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import CronRecord, JobCommandError, JobRecord, note
from phalanx.model.jobs.spec import CronSpec, JobSpec
from phalanx.protocol.wire_errors import is_defect

REPEATS_S = 3 * 3600.0
"""If a clock is set back by at most this number of seconds, scheduled times that were already acted
on are not repeated. If it is set back by more, its earlier time was wrong, and the schedule follows
the new time, as in Debian's cron.
"""
MOST_SPANS = 8
MARK = "volcano.sh/cronjob-scheduled-timestamp"
SCHEDULED, MISSED, REFUSED = "Scheduled", "Missed", "Refused"
"""The kinds of entries in a cron job's history: each scheduled time has one entry."""
SPANS_S = (60.0, 3600.0, 86_400.0, 32 * 86_400.0, 366 * 86_400.0, 9 * 366 * 86_400.0)
"""The lengths, in seconds, of the periods before now in which the latest missed time is sought. The
shortest period comes first.
"""


class CronEvent(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Something that happened to the cron job `namespace/name`."""

    cron: str


class CronSubmitted(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A cron job was created or changed by the request of this id."""

    spec: CronSpec
    request: bytes = b""


class CronSuspended(CronEvent, frozen=True, kw_only=True, tag=True):
    """A cron job was suspended, or resumed from now on."""

    suspend: bool


class CronJobEnded(CronEvent, frozen=True, kw_only=True, tag=True):
    """A job of the cron job has finished, was deleted, or could not be made.

    `state`: the state in which the job finished; "" if it was deleted. `reason`: why the job could
    not be made; "" if it was made.
    """

    job: str
    state: str
    reason: str = ""


class CronDeleted(CronEvent, frozen=True, kw_only=True, tag=True):
    """A cron job is to be deleted: its jobs are ended and forgotten, too."""


Event = CronSubmitted | CronSuspended | CronJobEnded | CronDeleted


class CronEffects(Protocol):
    """Requests that the cron jobs make to their shell."""

    def make_job(self, cron: CronRecord, job: JobSpec) -> None:
        """Submit this job. CronJobEnded follows when the job has finished, or cannot be made."""
        ...

    def delete_job(self, cron: CronRecord, name: str) -> None:
        """End that job if it runs, and forget the job."""
        ...

    def publish(self, cron: CronRecord) -> None:
        """Store a changed cron job, and report the change to its watchers."""
        ...

    def forget(self, cron: CronRecord) -> None:
        """Forget a deleted cron job."""
        ...


class CronTable:
    """All cron jobs, by `namespace/name`."""

    def __init__(self, effects: CronEffects) -> None:
        self._effects = effects
        self._crons: dict[str, CronRecord] = {}
        self._schedules: dict[str, Schedule] = {}
        self._next: dict[str, float] = {}

    def get(self, uid: str) -> CronRecord | None:
        return self._crons.get(uid)

    def all(self) -> list[CronRecord]:
        """Return every cron job, oldest first."""
        return list(self._crons.values())

    def restore(self, records: list[CronRecord], now: float) -> None:
        """Restore stored cron jobs. If times of a schedule passed meanwhile, one job makes up for
        all of them.
        """
        for cron in records:
            self._crons[cron.spec.uid] = cron
            self._schedules[cron.spec.uid] = parse_schedule(cron.spec.schedule)
            self._check(cron, now)

    def next_alarm(self) -> float | None:
        """The time at which `tick` is next needed."""
        return min(self._next.values(), default=None)

    def handle(self, event: Event, now: float) -> None:
        """Handle an event. Raises JobCommandError for a cron job that does not exist, and
        ValueError for an invalid schedule.
        """
        if isinstance(event, CronSubmitted):
            self._submit(event.spec, event.request, now)
            return
        cron = self._crons.get(event.cron)
        if cron is None:
            if isinstance(event, CronJobEnded):
                return  # the cron job was deleted in the meantime
            raise JobCommandError(f"there is no cron job {event.cron!r}")
        if isinstance(event, CronDeleted):
            for known in (self._crons, self._schedules, self._next):
                known.pop(event.cron, None)
            for name in (*cron.active, *cron.succeeded, *cron.failed):
                self._effects.delete_job(cron, name)
            self._effects.forget(cron)
            return
        if isinstance(event, CronSuspended):
            spec = msgspec.structs.replace(cron.spec, suspend=event.suspend)
            self._set(cron, spec, now, "by command")
        else:
            self._ended(cron, event, now)
        self._check(cron, now)

    def clock_stepped(self, step_s: float, now: float) -> None:
        """Check every schedule again after the clock was stepped by this many seconds, to `now`.
        Schedules with `@every` count elapsed time, so their start is shifted.
        """
        for cron in self._crons.values():
            if self._schedules[cron.spec.uid].every_s:
                cron.seen += step_s
            if not cron.spec.suspend:
                self._next[cron.spec.uid] = now

    def tick(self, now: float) -> None:
        """Make the jobs that are due."""
        for uid in [uid for uid, at in self._next.items() if at <= now]:
            del self._next[uid]  # an error of one cron job must not delay the others
            self._check(self._crons[uid], now)

    def _submit(self, spec: CronSpec, request: bytes, now: float) -> None:
        schedule = parse_schedule(spec.schedule)
        if not spec.job.groups:
            raise JobCommandError(f"cron job {spec.uid} has no jobTemplate: nothing would run")
        self._schedules[spec.uid] = schedule
        cron = self._crons.get(spec.uid)
        if cron is None:
            cron = self._crons[spec.uid] = CronRecord(spec=spec, seen=now)
            note(cron.history, now, "", "Suspended" if spec.suspend else "Active", "submitted")
        else:
            self._set(cron, spec, now, "by its manifest")
        cron.request = request
        self._check(cron, now)

    def _set(self, cron: CronRecord, spec: CronSpec, now: float, reason: str) -> None:
        old, cron.spec = cron.spec, spec
        timing = ("schedule", "time_zone", "suspend")
        if any(getattr(old, f) != getattr(spec, f) for f in timing):
            # No jobs are made for times that passed under the old schedule or while the cron job
            # was suspended.
            cron.seen, cron.acted = now, []
        if old.suspend != spec.suspend:
            states = {True: "Suspended", False: "Active"}
            note(cron.history, now, states[old.suspend], states[spec.suspend], reason)

    def _ended(self, cron: CronRecord, event: CronJobEnded, now: float) -> None:
        if event.reason:
            said = f"{event.job} could not be made: {event.reason}"
            note(cron.history, now, "", REFUSED, said)
        if event.job in cron.active:
            cron.active.remove(event.job)
        for kept in (cron.succeeded, cron.failed):
            if event.job in kept:
                kept.remove(event.job)
        if event.state == st.COMPLETED:
            cron.last_success = now
            self._keep(cron, cron.succeeded, event.job, cron.spec.keep_successful)
        elif event.state in st.FINISHED:
            self._keep(cron, cron.failed, event.job, cron.spec.keep_failed)

    def _keep(self, cron: CronRecord, kept: list[str], job: str, limit: int) -> None:
        kept.append(job)
        surplus = kept[: max(len(kept) - limit, 0)]
        del kept[: len(surplus)]
        for name in surplus:
            self._effects.delete_job(cron, name)

    def _check(self, cron: CronRecord, now: float) -> None:
        """Make the job that is due, and set the next alarm."""
        schedule, spec = self._schedules[cron.spec.uid], cron.spec
        if now < cron.seen:
            _set_back(cron, now)
        due = None if spec.suspend else latest(schedule, spec.time_zone, cron.seen, now)
        if due is not None and _is_acted_on(cron, due):
            cron.seen = due
        elif due is not None:
            self._due(cron, due, now)
        following = following_time(schedule, spec.time_zone, cron.seen, now)
        if following is None or spec.suspend:
            self._next.pop(spec.uid, None)
        else:
            self._next[spec.uid] = following
        self._effects.publish(cron)

    def _acted(self, cron: CronRecord, due: float) -> None:
        """Note that a scheduled time was acted on."""
        schedule, before = self._schedules[cron.spec.uid], cron.seen
        cron.seen = due
        if schedule.every_s:
            return
        begin, end = cron.acted[-1] if cron.acted else (None, None)
        is_next = end == before and schedule.after(before, cron.spec.time_zone) == due
        if begin is not None and is_next:
            cron.acted[-1] = (begin, due)
        else:
            cron.acted.append((due, due))
        del cron.acted[:-MOST_SPANS]

    def _new_name(self, cron: CronRecord, due: float) -> str:
        """Return the name of the next job (see job_name), or another name if a job has that name. A
        job may have that name if a clock that was set back repeats a time of `@every`.
        """
        schedule, taken = self._schedules[cron.spec.uid], {*cron.active, *cron.succeeded}
        taken.update(cron.failed)
        while (name := job_name(cron.spec, schedule, due)) in taken and schedule.every_s:
            due += 1.0
        return name

    def _due(self, cron: CronRecord, due: float, now: float) -> None:
        spec = cron.spec
        if spec.starting_deadline_s is not None and now - due > spec.starting_deadline_s:
            self._acted(cron, due)
            note(cron.history, now, "", MISSED, f"{now - due:g} s late, past the deadline")
            return
        if cron.active and spec.concurrency == "Forbid":
            # this time stays due until the active job has ended, or until the next time is due
            return
        if spec.concurrency == "Replace":
            for name in list(cron.active):
                cron.active.remove(name)
                self._effects.delete_job(cron, name)
        self._acted(cron, due)
        cron.last_scheduled = due
        name = self._new_name(cron, due)
        cron.active.append(name)
        note(cron.history, now, "", SCHEDULED, name)
        marks = (*spec.job.annotations, (MARK, f"{due:.0f}"))
        job = msgspec.structs.replace(
            spec.job, name=name, namespace=spec.namespace, annotations=tuple(sorted(marks))
        )
        self._effects.make_job(cron, job)


def _is_acted_on(cron: CronRecord, due: float) -> bool:
    return any(first <= due <= last for first, last in cron.acted)


def _set_back(cron: CronRecord, now: float) -> None:
    """Handle a clock that was set back to before the last scheduled time that was acted on."""
    if cron.seen - now > REPEATS_S:
        cron.acted = [span for span in cron.acted if span[1] <= now]
    before = [last for first, last in cron.acted if first <= now]
    cron.seen = min(max(before, default=now), now)


def job_name(spec: CronSpec, schedule: Schedule, due: float) -> str:
    """Return the name of the job for the scheduled time `due`. Equal times always give equal names.
    The name contains the minute of that time, or for `@every` the second, so that the names of one
    schedule's jobs differ.
    """
    return f"{spec.name}-{int(due) if schedule.every_s else int(due) // 60}"


def following_time(schedule: Schedule, zone: str, since: float, now: float) -> float | None:
    """Return the first time of the schedule after `now`. The times of `@every` are counted from
    `since`.
    """
    if schedule.every_s:
        return schedule.after(max(latest(schedule, zone, since, now) or 0.0, since))
    return schedule.after(now, zone)


def latest(schedule: Schedule, zone: str, since: float, now: float) -> float | None:
    """Return the last time of the schedule between `since` (excluded) and `now` (included); None
    without such a time.
    """
    if schedule.every_s:
        times = int((now - int(since)) // schedule.every_s)
        return float(int(since) + times * schedule.every_s) if times > 0 else None
    for span in SPANS_S:
        found = None
        moment = schedule.after(max(since, now - span), zone)
        while moment is not None and moment <= now:
            found, moment = moment, schedule.after(moment, zone)
        if found is not None or now - span <= since:
            return found
    return None


class Crons:
    """The shell of the cron jobs at the head."""

    def __init__(
        self,
        state_store: StateStore,
        jobs: JobGangs,
        submit: Callable[[JobSpec], None],
        internal_errors: InternalErrors,
    ) -> None:
        self._internal_errors = internal_errors
        self.table = CronTable(self)
        self._state_store = state_store
        self._jobs = jobs
        self._submit = submit

    def handle(self, event: Event) -> None:
        """Handle an event about a cron job."""
        self.table.handle(event, self._jobs.wall())
        self._jobs.work_off()

    def clock_stepped(self, step_s: float) -> None:
        """Check every schedule again after the clock was stepped."""
        self.table.clock_stepped(step_s, self._jobs.wall())

    def tick(self) -> None:
        """Make the jobs that are due."""
        if self._state_store.shortage:
            return  # as after any other delay, jobs are made when the store has room again
        wall = self._jobs.wall()
        while (alarm := self.table.next_alarm()) is not None and alarm <= wall:
            with self._internal_errors.kept_apart("cron"):
                self.table.tick(wall)
        self._jobs.work_off()

    def restore(self, records: list[CronRecord]) -> None:
        """Restore stored cron jobs. The jobs must have been restored before."""
        for record in records:
            with self._internal_errors.kept_apart("cron", record.spec.uid):
                self.table.restore([record], self._jobs.wall())
        self._jobs.work_off()

    def job_changed(self, job: JobRecord) -> None:
        """Tell a cron job that its job has finished."""
        if job.is_finished:
            self._ended(job, job.state)

    def job_gone(self, job: JobRecord) -> None:
        """Tell a cron job that its job was deleted."""
        self._ended(job, "")

    def _ended(self, job: JobRecord, state: str) -> None:
        if MARK not in dict(job.spec.annotations):
            return
        for cron in self.table.all():
            known = (*cron.active, *cron.succeeded, *cron.failed)
            is_mine = job.spec.namespace == cron.spec.namespace and job.spec.name in known
            is_news = job.spec.name in cron.active or not state
            if is_mine and is_news:
                event = CronJobEnded(cron=cron.spec.uid, job=job.spec.name, state=state)
                self.table.handle(event, self._jobs.wall())

    # ---- effects -----------------------------------------------------------------------------

    def make_job(self, cron: CronRecord, job: JobSpec) -> None:
        """Submit the job of a cron job after the current action."""
        self._jobs.after(cron.spec.uid, lambda: self._make(cron, job))

    def _make(self, cron: CronRecord, job: JobSpec) -> None:
        try:
            self._submit(job)
        except Exception as error:
            if is_defect(error):
                self._internal_errors.add("cron", error, cron.spec.uid)
            event = CronJobEnded(
                cron=cron.spec.uid, job=job.name, state="Failed", reason=str(error)
            )
            self.table.handle(event, self._jobs.wall())

    def delete_job(self, cron: CronRecord, name: str) -> None:
        """End and forget a job of a cron job."""
        uid = JobId(f"{cron.spec.namespace}/{name}")
        if self._jobs.table.get(uid) is not None:
            self._jobs.later(ev.Deleted(job=uid))

    def publish(self, cron: CronRecord) -> None:
        """Store a cron job that has changed."""
        self._state_store.keep("crons", cron.spec.uid.encode(), cron)

    def forget(self, cron: CronRecord) -> None:
        """Delete a cron job from the store."""
        self._state_store.keep("crons", cron.spec.uid.encode(), None)
