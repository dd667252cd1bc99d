"""All jobs with their gangs. This module carries out the effects of `JobTable`, and passes events
of gangs and members to it.

A job is one gang of commands. The gang exists while any member waits for a place, has a place or
gives a place back. Members that are not wanted yet, or no longer wanted, are absent from the gang.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from phalanx.head.accounting.ledger import Ledger
from phalanx.head.accounting.records import AttemptRecords
from phalanx.head.accounting.steps import StepUsage
from phalanx.head.effects import HeadEffects
from phalanx.head.gangs.binder import GangBinder
from phalanx.head.gangs.gang import Gang
from phalanx.head.gangs.gang_registry import GangRegistry
from phalanx.head.gangs.member_states import HELD, PLACELESS, WAITING
from phalanx.head.internal_errors import describe
from phalanx.head.jobs import events as ev
from phalanx.head.jobs.array_runs import COMES_BACK, ENDS, ArrayRuns, Run
from phalanx.head.jobs.array_tasks import ArrayTaskRows
from phalanx.head.jobs.arrays import Arrays
from phalanx.head.jobs.counts import JobCounts
from phalanx.head.jobs.job_rows import JobRow, JobRows
from phalanx.head.jobs.lifecycle import JobTable
from phalanx.head.jobs.member_orders import MemberOrders, is_in, key_of
from phalanx.head.jobs.member_places import GangNews, MemberPlaces
from phalanx.head.jobs.member_reports import MemberReports
from phalanx.head.jobs.preparing import PreparedMembers
from phalanx.head.jobs.run_places import RunPlaces
from phalanx.head.jobs.starting import Starter
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.model.attempts import NODE_LOST, PREEMPTED
from phalanx.model.ids import JobId
from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import JobRecord, MemberRecord
from phalanx.model.jobs.spec import UNLIMITED, JobSpec
from phalanx.model.jobs.timing import WarningSignal
from phalanx.model.node_deaths import ORDERLY, is_held_against
from phalanx.protocol.bundle_messages import ForgetJob
from phalanx.scheduler.devices.ports import RandomSource


class JobGangs:
    """All jobs, and the gangs of the jobs that have one."""

    def __init__(
        self,
        effects: HeadEffects,
        ledger: Ledger | None,
        *,
        rng: RandomSource,
        nodes: NodeDirectory,
        registry: GangRegistry,
        reservations: GangBinder,
        gang_news: GangNews,
        priority_of: Callable[[JobSpec], int],
    ) -> None:
        outbox, state_store, clock = effects.outbox, effects.state_store, effects.clock
        self._outbox = outbox
        self._state_store = state_store
        self._clock = clock
        self._internal_errors = effects.internal_errors
        self._counts = JobCounts(effects.meter)
        self._nodes = nodes
        self._registry = registry
        self._reservations = reservations
        self._gang_news = gang_news
        self.table = JobTable(self)
        self.arrays = Arrays(self, self.table.get)
        self.records = AttemptRecords(state_store, ledger, nodes.host_of, self.table.get)
        self.steps = StepUsage(state_store, self.records.put, nodes.host_of, clock.now)
        self._rows = JobRows(state_store)
        self.errors: dict[str, str] = {}
        """The last internal error of each job that had one."""
        self.starter = starter = Starter(nodes.address_of)
        places = RunPlaces(
            jobs=self, outbox=outbox, state_store=state_store, registry=registry,
            reservations=reservations, starter=starter, records=self.records,
            takes_work=nodes.takes_work, wall=clock.wall,
        )  # fmt: skip
        self.runs = ArrayRuns(places, self.arrays, self.table.get, clock.now, clock.wall)
        self._orders = MemberOrders(
            outbox, registry, clock, self.table.clocks, starter, self.runs.number
        )
        self.members = MemberPlaces(
            self._orders,
            registry,
            reservations=reservations,
            gang_news=gang_news,
            rng=rng,
            record_of=self.table.get,
            priority_of=priority_of,
            later=self.later,
        )
        self.prepared = PreparedMembers(outbox)
        self.reports = MemberReports(
            self,
            self.table,
            registry=registry,
            reservations=reservations,
            rows=self._rows,
            runs=self.runs,
            prepared=self.prepared,
            records=self.records,
            steps=self.steps,
        )
        self._todo: deque[tuple[str, Callable[[], None]]] = deque()
        """Actions that effects requested, each with its job. The actions run after the current
        event was handled.
        """
        self._is_busy = False
        self.on_change: Callable[[JobRecord], None] = lambda job: None
        self.on_forget: Callable[[JobRecord], None] = lambda job: None
        self.reserved_until: Callable[[JobSpec], float | None] = lambda spec: None
        """Returns the end of the reservation that the job would use if it started now; None if it
        would use none.
        """

    # ---- events ------------------------------------------------------------------------------

    def handle(self, event: ev.Event) -> None:
        """Handle an event, and run the actions that it causes. Raises JobCommandError for a command
        that is not possible.
        """
        self.take_in(event)
        self.work_off()

    def take_in(self, event: ev.Event) -> None:
        """Handle an event now. The actions that it causes run later."""
        self.table.handle(event, self._clock.wall(), self._clock.now())

    def resize(self, job: JobRecord, spec: JobSpec) -> None:
        """Give a job another size. Raises JobCommandError if the job is ending or over."""
        self.handle(ev.Resized(job=job.uid, spec=spec))
        gang = self.members.gangs.get(job.uid)
        if gang is not None:
            # Perhaps the gang was waiting only for a smaller minimum.
            self._gang_news.gang_changed(gang)

    def wall(self) -> float:
        """Return the wall-clock time in seconds since the epoch."""
        return self._clock.wall()

    def clock_stepped(self, step_s: float) -> None:
        """Shift the recorded times of jobs, after the clock was stepped by `step_s` seconds."""
        self.table.clock_stepped(step_s, self._clock.wall(), self._clock.now())
        self.steps.clock_stepped(step_s)
        self.work_off()

    def keep_time(self, job: JobRecord) -> float:
        """Update, in a job's record, the time for which the job's gang has run. Returns this time
        as it is shown (see `RunClocks.shown_s`).
        """
        self.table.clocks.keep(job, self._clock.now())
        return self.table.clocks.shown_s(job, self._clock.wall())

    def work_off(self) -> None:
        """Run the actions that effects have requested."""
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while self._todo:
                uid, action = self._todo.popleft()
                try:
                    action()
                except Exception as error:
                    self._failed(uid, error)
        finally:
            self._is_busy = False

    def tick(self) -> None:
        """Do what is due for jobs."""
        wall, steady = self._clock.wall(), self._clock.now()
        while (uid := self.table.due(wall, steady)) is not None:
            try:
                self.table.tick_one(wall, steady)
            except Exception as error:
                self._failed(uid, error)
        self.work_off()

    def _failed(self, uid: str, error: Exception) -> None:
        """Record an internal error of one job. Other jobs continue, and the error is displayed with
        this job.
        """
        self.errors[uid] = describe(error)
        self._internal_errors.add("job", error, uid)

    def later(
        self, event: ev.MemberLost | ev.Deleted | ev.DependencyChanged | ev.ArrayTasksChanged
    ) -> None:
        """Handle an event after the current action."""
        self.after(event.job, lambda: self.take_in(event))

    def after(self, uid: str, action: Callable[[], None]) -> None:
        """Run an action on a job after the current one."""
        self._todo.append((uid, action))

    # ---- effects of the machine --------------------------------------------------------------

    def want_members(self, job: JobRecord, members: list[MemberRecord]) -> None:
        """Find places for these members and start them, after the current action."""
        keys = [(m.group, m.index) for m in members]
        self.after(job.uid, lambda: self.members.want(job, keys))

    def restart_members(self, job: JobRecord, members: list[MemberRecord]) -> None:
        """Start the processes of these members again, after the current action."""
        keys = [(m.group, m.index) for m in members]
        self.after(job.uid, lambda: self.members.start(job, keys))

    def end_members(self, job: JobRecord, members: list[MemberRecord], reason: str) -> None:
        """End these members, after the current action."""
        ends = [(m.group, m.index, m.attempt) for m in members]
        self.after(job.uid, lambda: self.members.end(job, ends))

    def warn_members(self, job: JobRecord, signal: WarningSignal) -> None:
        """Send a warning signal to the job's running members, after the current action."""
        self.after(job.uid, lambda: self.members.warn(job, signal))

    def is_here(self, node_id: str) -> bool:
        """Whether that node is connected."""
        return self._nodes.is_here(node_id)

    def want_array_tasks(self, job: JobRecord) -> None:
        """Start the array tasks that may become live, after the current action."""
        self.after(job.uid, lambda: self.arrays.want(job, self.wall()))

    def end_array_tasks(self, job: JobRecord, only_pending: bool, comes_back: bool) -> None:
        """End live array tasks, after the current action."""
        leaves = "" if only_pending else COMES_BACK if comes_back else ENDS

        def end() -> None:
            self.runs.stop(job, leaves)
            self.arrays.end(
                job,
                comes_back=comes_back,
                spares=lambda task: only_pending and self.members.has_begun(task),
            )

        self.after(job.uid, end)

    def cancel_array_tasks(self, job: JobRecord, positions: Iterable[int]) -> int:
        """End tasks of an array for good. Returns how many were ended."""
        positions = list(positions)
        indices = self.arrays.of(job).indices
        count = self.runs.cancel(job, [indices.at(position) for position in positions])
        count += self.arrays.cancel(job, positions)
        self.work_off()
        return count

    def keep(self, table: str, key: bytes, row: ArrayTaskRows | None) -> None:
        """Store a part of an array's tasks; None deletes it."""
        self._state_store.keep(table, key, row)

    def notify_dependents(self, jobs: list[str]) -> None:
        """Notify these jobs, after the current action, that jobs for which they wait have
        changed.
        """
        for uid in jobs:
            self.later(ev.DependencyChanged(job=JobId(uid)))

    def count(self, job: JobRecord, what: str) -> None:
        """Count an occurrence for metrics."""
        self._counts.count(job, what)

    def publish(self, job: JobRecord) -> None:
        """Store a changed job, and report the change to its gang, its array and other parts."""
        self._rows.store(job)
        gang = self.members.gangs.get(job.uid)
        if gang is not None:
            self._gang_news.gang_amended(gang)
        if gang is not None and job.spec.is_prepared_first:
            self.after(job.uid, lambda: self.prepared.look(gang, job))
        if job.spec.element is not None:
            self.after(job.uid, lambda: self.arrays.task_changed(job))
        self.after(job.uid, lambda: self.on_change(job))

    def forget(self, job: JobRecord) -> None:
        """Forget a job that is gone. If it belongs to an array task, the result is first recorded
        in the array.
        """
        # the facts about the array task are stored before its row is deleted
        if job.spec.element is not None:
            array = self.arrays.task_over(job, self._rows.logs(job.uid) or {})
            if (gang := self.members.gangs.get(job.uid)) is not None:
                self.runs.looked_at(gang)
            self.later(ev.ArrayTasksChanged(job=array))
            self.after(array, lambda: self.arrays.ended_of(job))
        elif job.spec.array is not None:
            self.arrays.forget(job)
            self.runs.forget(job.uid)
        self.errors.pop(job.uid, None)
        self._rows.delete(job.uid)
        self.after(job.uid, lambda: self._forgotten(job))

    def _forgotten(self, job: JobRecord) -> None:
        gang = self.members.gangs.get(job.uid)
        is_kept = gang is not None and self.runs.keeps(gang)
        # a new job of the same name waits until this gang is over
        if gang is not None and not is_kept:
            self._reservations.remove(gang)
        if job.spec.element is None:
            self._outbox.broadcast(ForgetJob(job.uid))  # an array's files are deleted all at once
        self.on_forget(job)

    # ---- carrying effects out ----------------------------------------------------------------

    def hand_over(self, gang: Gang, job: JobSpec) -> None:
        """Give a gang to another job (RunJobs)."""
        self.members.hand_over(gang, job)

    def number_step(self, job: JobRecord) -> int:
        """Return a number for a new step of the job. No earlier step has had this number."""
        job.step_count += 1
        self.publish(job)
        self.work_off()
        return job.step_count - 1

    def reservation_changed(self, name: str) -> None:
        """Adjust the time limits of jobs that run in a reservation whose end has changed."""
        for job in self.table.all():
            if job.spec.reservation != name or job.run_started is None:
                continue
            until = self.reserved_until(job.spec)
            if until != job.reserved_until and not job.is_finished:
                job.reserved_until = until
                self.publish(job)
                self.table.connections_changed(job.uid, self._clock.wall(), self._clock.now())
        self.work_off()

    def node_joined(self, node_id: str) -> None:
        """Repeat the orders about members to a node that has connected again, because the node may
        have missed them.
        """
        for gang in list(self.members.gangs.values()):
            job = self.table.get(gang.job)
            if job is not None:
                self._orders.give_again(job, gang, node_id)
        self.runs.give_again(node_id)

    def node_away(self, node_id: str) -> None:
        """Note that a node's connection has ended. No news of its members arrives until the node is
        back.
        """
        for gang in self.members.gangs.values():
            if any(gang.members[index].node == node_id for index in gang.among(HELD)):
                self.table.connections_changed(gang.job, self._clock.wall(), self._clock.now())

    # ---- news --------------------------------------------------------------------------------

    def arrived(self, gang: Gang, members: list[int]) -> None:
        """Start the members that now have their places. Members that are no longer wanted are ended
        instead.
        """
        job = self.table.get(gang.job)
        wanted = [i for i in members if job and is_in(job, key_of(gang, i), st.PENDING)]
        if job is not None and wanted:
            job.reserved_until = self.reserved_until(job.spec)
            self.members.start(job, [key_of(gang, i) for i in wanted])
            self.runs.begun(gang, job)
        if len(wanted) < len(members):
            self._reservations.end(gang, [i for i in members if i not in wanted])

    def lost(self, gang: Gang, members: list[int]) -> None:
        """Report to a job that members have lost their places. Members whose next attempt the job
        has already requested keep waiting for places; the others wait again when the job requests
        that.
        """
        job = None if gang.is_removed else self.table.get(gang.job)
        has_no_limit = job is not None and job.spec.max_retry == UNLIMITED
        dismissed = []
        for index in members:
            group, number = key_of(gang, index)
            place = gang.members[index]
            attempt = place.start
            if job is not None:
                self.records.lost(gang, index, job, place.why_gone, self.wall())
            against = is_held_against(place.node_death or ORDERLY, has_no_limit=has_no_limit)
            self.runs.lost(gang, against)
            state = NODE_LOST if place.why_gone else PREEMPTED
            self.steps.member_over(gang.gang_id, index, place.attempt, state, self.wall())
            member = job.member(group, number) if job else None
            why, gave_way = place.why_gone, place.gave_way
            has_run_there = bool(attempt) and member is not None and member.attempt == attempt
            death = place.node_death if has_run_there else ORDERLY
            place.why_gone = place.gave_way = place.node_death = ""
            if member is None or member.attempt == attempt or member.state != st.PENDING:
                dismissed += [index] if gang.members[index].state == WAITING else []
                # The member's next attempt may have been ordered for this place, and then did not
                # begin there.
                attempt = member.attempt if member is not None else attempt
            if job is not None:
                self.later(
                    ev.MemberLost(
                        job=job.uid,
                        group=group,
                        index=number,
                        attempt=attempt,
                        reason=why or gave_way,
                        is_preempted=not why,
                        is_held_against=is_held_against(death, has_no_limit=has_no_limit),
                    )
                )
        self._reservations.dismiss(gang, dismissed)
        self.work_off()

    def stranded(self, gang: Gang) -> None:
        """Report to a job that its gang is stranded: too few members run, and there is no room for
        its other members.
        """
        self._registry.keep(gang)
        if self.table.get(gang.job) is not None:
            self.handle(ev.Stranded(job=gang.job))

    def over(self, gang: Gang) -> None:
        """Forget a gang that has no members any more. Members that their job wants again by then
        get a new gang.
        """
        self.steps.gang_over(gang.gang_id, self.wall())
        self.prepared.forget(gang)
        self.runs.over(gang)
        if self.members.gangs.get(gang.job) is not gang:
            return
        del self.members.gangs[gang.job]
        job = self.table.get(gang.job)
        if job is not None:
            self.members.want(job, [(m.group, m.index) for m in job.members])

    def logs(self, uid: str) -> dict[str, list[tuple[str, str]]]:
        """Return the files with the output of a job's members."""
        logs = self._rows.logs(uid)
        if logs is not None:
            return logs
        ended = self.arrays.ended_called(uid)
        return {} if ended is None else ended.logs

    def addresses(self, uid: str, group: str) -> list[str]:
        """Return the addresses of the nodes on which members of the group run, without duplicates.
        `group`: "" stands for all groups.
        """
        job = self.table.get(uid)
        if job is None:
            return []
        members = job.groups.get(group, []) if group else job.members
        nodes = dict.fromkeys(m.node for m in members if m.state == st.RUNNING)
        return list(dict.fromkeys(self._nodes.address_of(node) for node in nodes))

    def all_jobs(self) -> list[JobRecord]:
        """Return every job, oldest first."""
        return self.table.all()

    def gang_of(self, uid: str) -> Gang | None:
        """Return the gang of a job, while it has one."""
        return self.members.gangs.get(uid)

    # ---- state store -----------------------------------------------------------------------

    def know_gang(self, gang: Gang) -> None:
        """Note a restored gang, if it belongs to a job."""
        if gang.job:
            self.members.gangs[gang.job] = gang

    def load(self, rows: Iterable[JobRow], tasks: Iterable[ArrayTaskRows]) -> None:
        """Load stored jobs. Jobs must be loaded before gangs are restored, because gangs look their
        jobs up.
        """
        for uid in self.arrays.restore(self._rows.load(rows), tasks):
            self._rows.delete(uid)

    def restore(self, runs: Iterable[Run]) -> None:
        """Continue the jobs. Their gangs must have been restored before."""
        self.members.is_restoring = True
        for job in self._rows.oldest_first():
            try:
                self.table.restore([job], self._clock.wall(), self._clock.now())
            except Exception as error:
                self._failed(job.uid, error)
        idle = self.runs.restore(runs, self._registry.gangs)
        for gang in list(self.members.gangs.values()):
            lost = self._lost_meanwhile(gang)
            if not lost and self.runs.keeps(gang):
                lost = [index for index in gang.within(PLACELESS) if not index]
            if lost:
                self.lost(gang, lost)
        self.work_off()
        self.members.is_restoring = False
        for gang in idle:
            if gang.gang_id in self._registry.gangs and not self.runs.keeps(gang):
                self._reservations.end(gang, [0])
        for gang in list(self.members.gangs.values()):
            if not gang.waits:
                self._reservations.end(gang, ())  # perhaps none of its members is wanted any more

    def _lost_meanwhile(self, gang: Gang) -> list[int]:
        """Return the started members that no longer have a place. Either an earlier head died
        before it notified the members' job, or the members' node died while no head ran.
        """
        job = self.table.get(gang.job)
        lost = []
        for index in gang.within(PLACELESS):
            member = job.member(*key_of(gang, index)) if job is not None else None
            if member is None or member.attempt != gang.members[index].start:
                continue
            if member.state in (st.PENDING, st.RUNNING):
                lost.append(index)
        return lost
