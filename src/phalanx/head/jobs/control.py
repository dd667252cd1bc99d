"""Jobs at the control store: their machine's effects are run here, and news become its events.

A job is one gang of commands. Its gang lives as long as any of its members wants, has or gives back
a place; members that nobody wants yet, or any more, are absent from it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from phalanx.head.gangs.gang import (
    ABSENT,
    DONE,
    ENDING,
    HELD,
    LEAVING,
    PLACING,
    WAITING,
    Gang,
)
from phalanx.head.gangs.gang_registry import GangRegistry
from phalanx.head.gangs.plan_applier import PlanApplier
from phalanx.head.jobs import events as ev
from phalanx.head.jobs.environment import ports_needed
from phalanx.head.jobs.machine import JobTable
from phalanx.head.jobs.starting import Starter
from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import JobRecord, MemberRecord
from phalanx.model.jobs.spec import JobSpec
from phalanx.model.lifecycle import REMOVED
from phalanx.protocol.cluster_messages import EndMember, ForgetJob, MemberNews

if TYPE_CHECKING:
    from phalanx.head.control_plane import ControlPlane

_encode = msgspec.msgpack.Encoder(order="sorted").encode


class JobRow(msgspec.Struct, kw_only=True, eq=False):
    """A job as it is stored, with the files that its members' output is in: (node, path) of each
    attempt, by member."""

    record: JobRecord
    logs: dict[str, list[tuple[str, str]]] = {}


class Jobs:
    """All jobs, and the gangs of those that have any."""

    def __init__(
        self,
        shell: ControlPlane,
        registry: GangRegistry,
        applier: PlanApplier,
        soon: Callable[..., None],
        priority_of: Callable[[JobSpec], int],
    ) -> None:
        self._shell = shell
        self._registry = registry
        self._applier = applier
        self._soon = soon
        self._priority_of = priority_of
        self.table = JobTable(self)
        registry.podgroups.record_of = self.table.get
        self._rows: dict[str, JobRow] = {}
        self._gangs: dict[str, Gang] = {}
        self._starter = Starter(applier.address_of)
        self._todo: deque[Callable[[], None]] = deque()
        """What effects ask for: done once the event that caused it is taken in."""
        self._is_busy = self._is_restoring = False
        self.on_change: Callable[[JobRecord], None] = lambda job: None
        self.on_forget: Callable[[JobRecord], None] = lambda job: None

    # ---- events ------------------------------------------------------------------------------

    def handle(self, event: ev.Event) -> None:
        """Take an event in and do what follows. Raises JobCommandError for a command that does
        not fit."""
        self.table.handle(event, self._shell.wall())
        self.work_off()

    def resize(self, job: JobRecord, spec: JobSpec) -> None:
        """Give a job another size. Raises JobCommandError when it is over."""
        self.handle(ev.Resized(job=job.uid, spec=spec))
        gang = self._gangs.get(job.uid)
        if gang is not None:
            self._gang_changed(job, gang)  # another minimum may be all that it waited for

    def wall(self) -> float:
        """The time of day in seconds since the epoch."""
        return self._shell.wall()

    def work_off(self) -> None:
        """Do what effects have asked for."""
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while self._todo:
                self._todo.popleft()()
        finally:
            self._is_busy = False

    def tick(self) -> None:
        """Time has passed."""
        alarm = self.table.next_alarm()
        if alarm is not None and alarm <= self._shell.wall():
            self.table.tick(self._shell.wall())
        self.work_off()

    def later(self, event: ev.Event) -> None:
        """Take an event in after what is being done now."""
        self._todo.append(lambda: self.table.handle(event, self._shell.wall()))

    def after(self, action: Callable[[], None]) -> None:
        """Do something after what is being done now."""
        self._todo.append(action)

    # ---- effects of the machine --------------------------------------------------------------

    def enter_queue(self, job: JobRecord) -> None:
        """See JobEffects: it does with its first members."""

    def leave_queue(self, job: JobRecord) -> None:
        """See JobEffects: it has when its last member is over."""

    def want_members(self, job: JobRecord, members: list[MemberRecord]) -> None:
        """See JobEffects."""
        keys = [(m.group, m.index) for m in members]
        self._todo.append(lambda: self._want(job, keys))

    def restart_members(self, job: JobRecord, members: list[MemberRecord]) -> None:
        """See JobEffects."""
        keys = [(m.group, m.index) for m in members]
        self._todo.append(lambda: self._start(job, keys))

    def end_members(self, job: JobRecord, members: list[MemberRecord], reason: str) -> None:
        """See JobEffects."""
        ends = [(m.group, m.index, m.attempt) for m in members]
        self._todo.append(lambda: self._end(job, ends))

    def publish(self, job: JobRecord) -> None:
        """See JobEffects."""
        row = self._rows.setdefault(job.uid, JobRow(record=job))
        self._shell.state_store.keep("batch_jobs", job.uid.encode(), row)
        self._todo.append(lambda: self.on_change(job))

    def forget(self, job: JobRecord) -> None:
        """See JobEffects."""
        self._rows.pop(job.uid, None)
        self._shell.state_store.keep("batch_jobs", job.uid.encode(), None)
        self._todo.append(lambda: self._forgotten(job))

    def _forgotten(self, job: JobRecord) -> None:
        gang = self._gangs.pop(job.uid, None)
        if gang is not None and gang.group in self._registry.gangs:
            self._applier.end(gang, range(len(gang.states)))
        self._shell.broadcast(ForgetJob(job.uid))
        self.on_forget(job)

    # ---- doing them --------------------------------------------------------------------------

    def _want(self, job: JobRecord, keys: Iterable[tuple[str, int]]) -> None:
        """These members are to get places."""
        gang = self._gangs.get(job.uid)
        wanted = {k for k in keys if _is(job, k, st.PENDING)}
        if gang is None:
            if wanted:
                self._new_gang(job, wanted)
            return
        group = self._shell.group_table.get(gang.group)
        if group is None or group.state == REMOVED:
            return  # they are asked for again when it is over
        new = sorted(wanted - set(gang.members))
        if new:
            self._grow(job, gang, new)
        coming = self._registry.on_the_way(gang)
        for index, key in enumerate(gang.members):
            state = gang.states[index]
            if key not in wanted:
                continue
            if state in (ABSENT, DONE):
                gang.states[index] = WAITING
            elif state == ENDING and index in coming:
                gang.states[index] = PLACING
            elif state == ENDING:
                gang.states[index] = LEAVING  # and comes back when its old place is free
            elif state == HELD and self._is_restoring:
                self._start(job, [key])
            elif state == HELD:
                gang.states[index] = LEAVING
        self._gang_changed(job, gang)

    def _new_gang(self, job: JobRecord, wanted: set[tuple[str, int]]) -> None:
        spec = job.spec
        members = [(m.group, m.index) for m in job.members]
        groups = {group.name: group for group in spec.groups}
        need = ports_needed(spec)
        gang = Gang(
            group=bytes(self._shell.rng.randrange(256) for _ in range(18)),
            name=spec.name,
            namespace=spec.namespace,
            queue=spec.queue,
            priority=self._priority_of(spec),
            least=0,
            needs=[groups[name].template.needs for name, _ in members],
            creator=b"",
            created=job.submitted,
            port_count=need.gang + need.member * len(members),
            grace_s=max((group.template.grace_s for group in spec.groups), default=0.0),
            job=job.uid,
            members=members,
            attempts=[0] * len(members),
            states=[WAITING if key in wanted else ABSENT for key in members],
            kind_of_job=_kind(spec),
        )
        self._gangs[job.uid] = gang
        self._applier.add(gang)

    def _grow(self, job: JobRecord, gang: Gang, new: list[tuple[str, int]]) -> None:
        """The job has become larger."""
        needs = {group.name: group.template.needs for group in job.spec.groups}
        gang.members = [*gang.members, *new]
        gang.kind_of_job, gang.kind = _kind(job.spec), b""
        self._applier.grow(gang, [needs[name] for name, _ in new])

    def _gang_changed(self, job: JobRecord, gang: Gang) -> None:
        """Other members of it want places than before."""
        self._applier.let_go(gang)
        if self._registry.window.sees(gang):
            self._registry.cache.forget()
        self._registry.keep(gang)
        self._soon()

    def _start(self, job: JobRecord, keys: Iterable[tuple[str, int]]) -> None:
        """These have places, and are to run there."""
        gang = self._gangs.get(job.uid)
        if gang is None:
            return
        nodes = self._registry.nodes_of(gang)
        chosen = [gang.members.index(key) for key in keys]
        held = [i for i in chosen if gang.states[i] == HELD]
        orders = self._starter.orders(job, gang, nodes, held)
        for index, order in orders.items():
            gang.attempts[index] = order.attempt
        self._registry.keep(gang)
        for index, order in orders.items():
            self._shell.order(nodes[index], order)

    def _end(self, job: JobRecord, ends: Iterable[tuple[str, int, int]]) -> None:
        """These are to end, wherever they are on their way."""
        gang = self._gangs.get(job.uid)
        nodes = self._registry.nodes_of(gang) if gang is not None else []
        over = []
        for group, number, attempt in ends:
            index = gang.members.index((group, number)) if gang is not None else -1
            if gang is not None and gang.states[index] == HELD and gang.attempts[index]:
                order = EndMember(gang.group, index, gang.attempts[index])
                self._shell.order(nodes[index], order)
                continue
            if gang is not None and gang.states[index] not in (ABSENT, DONE):
                over.append(index)
            self.later(
                ev.MemberLost(
                    job=job.uid, group=group, index=number, attempt=attempt, reason="not started"
                )
            )
        if gang is not None and over:
            self._over(gang, over)

    def _over(self, gang: Gang, indexes: Iterable[int]) -> None:
        """These want their places no longer, unless they were asked for again meanwhile."""
        if gang.group in self._registry.gangs:
            self._applier.end(gang, indexes)

    def node_joined(self, node_id: str) -> None:
        """A node is there again: what it was told of members may not have come there."""
        for gang in list(self._gangs.values()):
            job, nodes = self.table.get(gang.job), self._registry.nodes_of(gang)
            for index in gang.among(HELD):
                attempt = gang.attempts[index]
                member = job.member(*gang.members[index]) if job is not None else None
                if nodes[index] != node_id or member is None or member.attempt != attempt:
                    continue
                if job is not None and member.state in (st.PENDING, st.RUNNING):
                    self._start(job, [gang.members[index]])
                elif member.state == st.TERMINATING:
                    self._shell.order(node_id, EndMember(gang.group, index, attempt))

    # ---- news --------------------------------------------------------------------------------

    def arrived(self, gang: Gang, members: list[int]) -> None:
        """Members have their places: they start, or are over if nobody wants them any more."""
        job = self.table.get(gang.job)
        wanted = [i for i in members if job and _is(job, gang.members[i], st.PENDING)]
        if job is not None and wanted:
            self._start(job, [gang.members[i] for i in wanted])
        if len(wanted) < len(members):
            self._over(gang, [i for i in members if i not in wanted])

    def lost(self, gang: Gang, members: list[int]) -> None:
        """Members have lost their places, and wait again."""
        job = self.table.get(gang.job)
        for index in members:
            group, number = gang.members[index]
            attempt = gang.attempts[index]
            member = job.member(group, number) if job else None
            if member is None or member.attempt == attempt or member.state != st.PENDING:
                gang.states[index] = ABSENT  # until its job asks for it again
                # Its next attempt may have been meant for this place, and never began there.
                attempt = member.attempt if member is not None else attempt
            if job is not None:
                self.later(ev.MemberLost(job=job.uid, group=group, index=number, attempt=attempt))
        self._registry.cache.forget()
        self._todo.append(lambda: self._close_if_over(gang))
        self.work_off()

    def stranded(self, gang: Gang) -> None:
        """Some members run, too few, and the others find no room: its podgroup is Unknown."""
        self._registry.keep(gang)
        if self.table.get(gang.job) is not None:
            self.handle(ev.Stranded(job=gang.job))

    def _close_if_over(self, gang: Gang) -> None:
        if gang.is_over and gang.group in self._registry.gangs:
            self._over(gang, range(len(gang.states)))

    def over(self, gang: Gang) -> None:
        """Nobody of the gang is left; whoever is wanted meanwhile gets a new one."""
        if self._gangs.get(gang.job) is not gang:
            return
        del self._gangs[gang.job]
        job = self.table.get(gang.job)
        if job is not None:
            self._want(job, [(m.group, m.index) for m in job.members])

    def member_news(self, node_id: str, message: MemberNews) -> None:
        """A node says that a member runs, or has ended."""
        gang = self._registry.gangs.get(message.group)
        if gang is None or not gang.job or gang.attempts[message.index] != message.attempt:
            return
        group, number = gang.members[message.index]
        about: dict[str, Any] = {
            "job": gang.job, "group": group, "index": number, "attempt": message.attempt,
        }  # fmt: skip
        if message.log:
            self._know_log(gang.job, f"{group}-{number}", (node_id, message.log))
        if message.code is None:
            self.handle(ev.MemberRan(**about, node=node_id))
            job = self.table.get(gang.job)
            if job is not None and any(group.depends_on for group in job.spec.groups):
                self._registry.cache.forget()  # who waited for it counts in the gang now
            return
        self.handle(ev.MemberExited(**about, exit_code=message.code, reason=message.reason))
        started_again = gang.attempts[message.index] != message.attempt
        if gang.states[message.index] == HELD and not started_again:
            self._over(gang, [message.index])

    def _know_log(self, uid: str, member: str, place: tuple[str, str]) -> None:
        row = self._rows.get(uid)
        if row is not None and place not in row.logs.setdefault(member, []):
            row.logs[member].append(place)

    def logs(self, uid: str) -> dict[str, list[tuple[str, str]]]:
        """The files that the output of a job's members is in."""
        row = self._rows.get(uid)
        return {} if row is None else row.logs

    def addresses(self, uid: str, group: str) -> list[str]:
        """Where members of a group of a job ("": of any) run, each place once."""
        job = self.table.get(uid)
        if job is None:
            return []
        members = job.groups.get(group, []) if group else job.members
        nodes = dict.fromkeys(m.node for m in members if m.state == st.RUNNING)
        return list(dict.fromkeys(self._applier.address_of(node) for node in nodes))

    def gang_of(self, uid: str) -> Gang | None:
        """The gang of a job, while it has one."""
        return self._gangs.get(uid)

    # ---- state store -----------------------------------------------------------------------

    def know_gang(self, gang: Gang) -> None:
        """A gang of a job that an earlier head knew."""
        self._gangs[gang.job] = gang

    def load(self, rows: Iterable[JobRow]) -> None:
        """Know the jobs again: before gangs are restored, which look at them."""
        for row in rows:
            self._rows[row.record.uid] = row

    def restore(self) -> None:
        """Go on with the jobs; their gangs are restored before."""
        self._is_restoring = True
        rows = sorted(self._rows.values(), key=lambda row: row.record.submitted)
        self.table.restore([row.record for row in rows])
        for gang in list(self._gangs.values()):
            self._tell_lost(gang)
        self.work_off()
        self._is_restoring = False

    def _tell_lost(self, gang: Gang) -> None:
        """Who was started and has no place any more: an earlier head had not told their job, or
        their node is gone with what it was told to free."""
        job = self.table.get(gang.job)
        lost = []
        for index in gang.among(WAITING, ABSENT, DONE):
            member = job.member(*gang.members[index]) if job is not None else None
            was_started = member is not None and member.attempt == gang.attempts[index]
            if member is not None and was_started and member.state in (st.PENDING, st.RUNNING):
                lost.append(index)
        if lost:
            self.lost(gang, lost)


def _is(job: JobRecord, key: tuple[str, int], state: str) -> bool:
    member = job.member(*key)
    return member is not None and member.state == state


def _kind(spec: JobSpec) -> bytes:
    """Equal for jobs that scheduling cannot tell apart, but for their names and ages."""
    if any(group.template.placement for group in spec.groups):
        return spec.uid.encode()
    asked = [
        (g.name, g.replicas, g.min_available, g.template.needs, g.depends_on, g.partition)
        for g in spec.groups
    ]
    return _encode((asked, spec.min_available, spec.topology, spec.annotations))
