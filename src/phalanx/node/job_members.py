"""The members of jobs on this node. The commands of a member run in its bundle, and no process of
the member stays when the member has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from phalanx.model.exit_codes import NOT_STARTED, TIMED_OUT
from phalanx.model.ids import MemberId
from phalanx.model.member_use import MemberUse
from phalanx.node.bundle_pool import BundlePool
from phalanx.node.bundle_table import BundleTable
from phalanx.node.device_holders import Holder, holder_of
from phalanx.node.directories import Directories
from phalanx.node.dispatch import MessageTable
from phalanx.node.error_files import ERROR_BYTES, message_in
from phalanx.node.gpu_shares import GpuShares
from phalanx.node.head_link import HeadLink
from phalanx.node.kept_members import KeptMember
from phalanx.node.member import NEVER, Member
from phalanx.node.member_admission import TAKEN, MemberAdmission, Refused
from phalanx.node.member_effects import (
    CommandEnd,
    MemberChecks,
    MemberEffects,
    NoMemberChecks,
)
from phalanx.node.member_logs import MemberLogs
from phalanx.node.member_processes import MemberProcesses
from phalanx.node.member_records import MemberRecords
from phalanx.node.member_reports import MemberReports
from phalanx.node.member_runs import HELD_S, SHOWN_S, MemberRuns
from phalanx.node.preparations import Preparations
from phalanx.node.shortage import Shortage
from phalanx.node.standing import always_sure
from phalanx.node.usage import Device
from phalanx.protocol.bundle_messages import (
    BeginMember,
    EndMember,
    ExtendRun,
    ForgetJob,
    MemberUseRead,
    PackagePart,
    ReadLog,
    ReadMemberUse,
    Receivers,
    SignalMember,
    StartMember,
    StartStep,
    StepStarted,
    StopRun,
    WarnMember,
)

MAX_STEPS = 1_000
"""The largest number of steps that a member can have at a time."""


class JobMembers:
    """Carries out the head's orders about members of jobs."""

    def __init__(
        self,
        effects: MemberEffects,
        bundles: BundleTable,
        head: HeadLink,
        *,
        devices: Callable[[], Mapping[int, Device]] = dict,
        checks: MemberChecks | None = None,
        directories: Directories | None = None,
        report: Callable[[], None] = lambda: None,
        shortage: Shortage | None = None,
        gpus: GpuShares | None = None,
        may_begin: Callable[[], bool] = always_sure,
    ) -> None:
        """`devices` returns the latest reading of the GPUs, by number. `report` sends the node's
        health to the head. It is called before each report that a member could not begin here.
        `gpus`: the shares of GPUs that members may use. `may_begin` returns whether it is certain
        that the head has not given this node up. If it is not certain, `begin_waiting` is called as
        soon as it is.
        """
        self._may_begin = may_begin
        self._waiting: list[Member | StartStep] = []
        """Steps and members that wait because the head may have given this node up. The next
        command of such a member waits.
        """
        self._clock = clock = effects.clock
        self._head = head
        self._files = effects.files
        self._note = note = effects.note
        self._checks = checks or NoMemberChecks()
        self._runs = MemberRuns()
        self._admission = MemberAdmission(effects, bundles, directories, shortage, gpus)
        # Members that continue when this node ends are recorded, and their commands are started
        # separately.
        self._records = MemberRecords(effects.keeping, bundles, effects.commands, note)
        self._reports = MemberReports(head, clock, self._runs, self._records, report)
        self._processes = MemberProcesses(effects, self._records, self._admission.shortage, devices)
        self._logs = MemberLogs(effects.files, self._processes, self._admission.directories, clock)
        self._preparations = Preparations(
            clock, self._processes, self._reports, effects.files, head=head, failed=self._finish
        )
        self._members: dict[MemberId, Member] = {}

    def handle_in(self, table: MessageTable) -> None:
        """Register the handlers for the head's messages about members."""
        table.on(StartMember, self.start)
        table.on(BeginMember, self.begin_prepared)
        table.on(PackagePart, self._preparations.packages.part)
        table.on(ExtendRun, self.extend)
        table.on(StopRun, self.stop_run)
        table.on(EndMember, self.end)
        table.on(WarnMember, self.warn)
        table.on(SignalMember, self.signal)
        table.on(StartStep, self.start_step)
        table.on(ForgetJob, self.forget)
        table.on(ReadLog, self.read_log)
        table.on(ReadMemberUse, self._read_use)

    def head_joined(self) -> None:
        """Ask the head again for the packages that did not arrive over an earlier connection."""
        self._preparations.packages.again()

    def __len__(self) -> int:
        """Return how many members are on this node."""
        return len(self._members)

    def all(self) -> list[Member]:
        """Return the members that are on this node."""
        return list(self._members.values())

    def holders(self) -> Iterator[Holder]:
        """Yield a holder for each member that runs."""
        for member in self._members.values():
            order = member.order
            yield holder_of(
                f"{order.job.removeprefix('default/')} {order.name}",
                member.held,
                member.pool,
                self._admission.gpus.card_memory,
                tuple(member.usage.pids),
                member.key,
                is_member=True,
            )

    # ---- begin -------------------------------------------------------------------------------

    def start(self, order: StartMember) -> None:
        """Run a member. If it runs already, nothing is done: a head may repeat its orders."""
        place = (order.group, order.index)
        known = self._members.get(place)
        if known is not None and known.order.attempt >= order.attempt:
            self._reports.running(known)
        elif not self._reports.is_over(place, order.attempt):
            self._begin_attempt(order)

    def begin_prepared(self, order: BeginMember) -> None:
        """Run a member whose environment is prepared."""
        member = self._attempt(order)
        if member is not None and member.prepares and member.is_ready and not member.is_ending:
            self._begin_prepared(member)

    def _begin_prepared(self, member: Member) -> None:
        member.prepares = False
        self._begin_commands(member)

    def extend(self, message: ExtendRun) -> None:
        """Add array tasks to the run in a bundle. They begin after the array tasks that already
        wait for this bundle.
        """
        is_outdated = self._runs.is_outdated(message)
        place = self._runs.extend(message)
        if is_outdated:
            self._reports.stop_run(place)
        self._continue_run(place)

    def stop_run(self, message: StopRun) -> None:
        """Hand back to the head the array tasks of a run that have not begun, and report the array
        task that runs.
        """
        place = (message.group, message.index)
        self._reports.stop_run(place)
        member = self._members.get(place)
        if member is not None and member.is_quiet:
            self._reports.running(member)

    def _continue_run(self, place: MemberId) -> None:
        """Begin the next array task of a run if the run's bundle is free. If the bundle is free and
        no array task waits for it, send the run's report immediately.
        """
        while place not in self._members and (order := self._runs.next(place)) is not None:
            if self._admission.pool(place) is None:  # the place no longer exists
                self._runs.put_back(order)
                self._reports.stop_run(place)
                return
            self._begin_attempt(order, is_quiet=True)
        if not self._runs.waits(place) and place not in self._members:
            self._reports.run(place)

    def _begin_attempt(self, order: StartMember, is_quiet: bool = False) -> None:
        place = (order.group, order.index)
        pool = self._admission.pool(place)
        if pool is None:
            return  # the head is taking the place away, so it knows that the member did not begin
        is_taken = place in self._members
        member = TAKEN if is_taken else self._admission.admit(order, pool, is_quiet)
        if isinstance(member, Refused):
            self._reports.never_began(
                place, order.attempt, member.reason, is_nodes_fault=member.is_nodes_fault
            )
            return
        self._logs.begin(member.log, order.is_followed, self._clock())
        self._records.begin(member)
        self._members[place] = member
        if not member.rests:
            self._begin_commands(member)

    def _begin_commands(self, member: Member) -> None:
        """Begin a member as soon as it is certain that the head has not given this node up. Until
        then the member rests.
        """
        if not self._may_begin():
            member.rests = True
            return
        member.rests = False
        if self._preparations.begin(member):
            return
        order = member.order
        member.begin(self._clock())
        self._note(f"member {order.name} begins, start {order.start_number}", job=order.job)
        if not self._checks.before(member.usage.devices, partial(self._on_checked, member)):
            self._go_on(member)
        if not member.is_quiet:
            self._reports.running(member)

    def _on_checked(self, member: Member, reason: str) -> None:
        """Begin a member after the checks of its node. With a `reason`, the member cannot begin."""
        if self._members.get(member.place) is not member or member.is_ending:
            return
        if reason:
            self._cannot_begin(member, reason)
        else:
            self._go_on(member)

    def _cannot_begin(self, member: Member, reason: str) -> None:
        """End a member that could not begin because of its node. The head will start it again."""
        member.is_nodes_fault = True
        member.code, member.reason = NOT_STARTED, f"its node is not well: {reason}"
        self._end(member, 0.0)

    def _go_on(self, member: Member) -> None:
        """Start the next command of the order's `before`. If all of these have run, start the
        member's own commands. If it is not certain that the head still counts on this node, the
        member waits until it is.
        """
        if not self._may_begin():
            self._waiting.append(member)
            return
        if member.waiting:
            self._processes.run(member, member.waiting.pop(0))
            return
        commands, member.order.commands = member.order.commands, []
        for command in commands:
            self._processes.run(member, command)

    def begin_waiting(self) -> None:
        """Begin the commands and steps that waited, unless their members are ending."""
        for member in list(self._members.values()):
            if member.is_due(self._clock()):
                self._begin_commands(member)
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if isinstance(one, StartStep):
                self.start_step(one)
            elif self._members.get(one.place) is one and not one.is_ending:
                self._go_on(one)

    def take_over(self, kept: KeptMember, begun: Mapping[bytes, int]) -> bool:
        """Continue with a member that an earlier process of this node began. The member's bundle
        must be here.

        `begun`: the member's processes that have begun, with their pids. Some of them may have
        ended; the caller then calls `exited` for each of these. Returns False if the bundle is not
        free.
        """
        order = kept.order
        member = self._admission.readmit(kept, begun)
        if member is None:
            return False
        self._members[kept.place] = member
        self._runs.began_before(kept.place, order.attempt)
        self._logs.begin(kept.log, order.is_followed, self._clock())
        commands = [*order.before, *order.commands]
        for process, command in zip(kept.processes, commands, strict=False):
            self._processes.adopt(member, process, command, begun[process])
        self._note(f"member {order.name} goes on, start {order.start_number}", job=order.job)
        return True

    def report_ended(self, kept: KeptMember, end: CommandEnd, now: float) -> None:
        """Report to the head that a member has ended that an earlier process of this node began.
        Its bundle belongs to a later attempt now.
        """
        self._runs.began_before(kept.place, kept.order.attempt)
        self._reports.ended_before(kept, end, now)

    # ---- other orders ------------------------------------------------------------------------

    def start_step(self, order: StartStep) -> None:
        """Run an additional program in a member."""
        if not self._may_begin():
            self._waiting.append(order)
            return
        member = self._attempt(order)
        if member is None or member.is_ending:
            why = "it does not run any more"
        elif member.rests:
            why = "it rests after a crash"
        elif member.prepares:
            why = "its environment is being prepared"
        elif len(member.steps) >= MAX_STEPS:
            why = f"it already has {MAX_STEPS} steps, the most at a time"
        else:
            why = ""
            self._processes.run_step(member, order)
        self._head.notify(StepStarted(order.token, why))

    def _attempt(
        self, order: BeginMember | EndMember | SignalMember | StartStep | WarnMember
    ) -> Member | None:
        """Return the attempt that an order concerns; None if it does not run here."""
        member = self._members.get((order.group, order.index))
        return member if member is not None and member.order.attempt == order.attempt else None

    def warn(self, message: WarnMember) -> None:
        """Send a member the signal that its time is nearly up. A head may repeat the order."""
        member = self._attempt(message)
        if member is not None:
            self._warn(member, message.signal, message.only_shell)

    def _warn(self, member: Member, number: int, only_shell: bool) -> None:
        if not member.is_warned:
            member.is_warned = True
            to: Receivers = "command" if only_shell else "started"
            self._processes.signal(member.processes, number, to)

    def signal(self, message: SignalMember) -> None:
        """Send a member a signal that somebody requested. If the member survives the signal, it
        continues.
        """
        member = self._attempt(message)
        if member is None:
            return
        steps = [] if message.to == "command" else list(member.steps)
        self._processes.signal(steps, message.signal)
        if not steps or message.to == "all":
            self._processes.signal(member.running, message.signal, message.to)

    def forget(self, message: ForgetJob) -> None:
        """Delete the files of a job that is gone."""
        self._logs.forget(message)

    def read_log(self, message: ReadLog) -> None:
        """Answer with a part of a log."""
        self._head.notify(self._logs.read(message, self._clock()))

    def _read_use(self, message: ReadMemberUse) -> None:
        members = (one for one in self._members.values() if one.log == message.path)
        member = next(members, None)
        use = MemberUse() if member is None else member.usage.over_time()
        self._head.notify(MemberUseRead(message.token, use))

    # ---- end ---------------------------------------------------------------------------------

    def end(self, message: EndMember) -> None:
        """End a member, with a grace period. A member that this node does not know counts as
        ended.
        """
        place = (message.group, message.index)
        member = self._attempt(message)
        if member is not None:
            self._end(member, member.order.grace_s)
        elif place not in self._members and not self._reports.is_over(place, message.attempt):
            self._reports.never_began(place, message.attempt, "it was ended before it began")

    def end_now(self, key: bytes, reason: str) -> None:
        """Kill the member with this key, because it must stop using a GPU."""
        for member in list(self._members.values()):
            if member.key == key:
                member.blame_kill(reason)
                self._end(member, 0.0)

    def warn_in(self, pools: Sequence[BundlePool]) -> None:
        """Ask the members in these bundles to end. The head has set a grace period for the bundles;
        `end_in` ends the members that run longer.
        """
        for member in self._inside(pools):
            member.is_evicted = True
            order = member.order
            has_been_told = member.is_warned or member.is_ending
            if not order.signal or has_been_told or not member.running:
                self._end(member, NEVER)  # the bundle's own grace period applies
                continue
            self._leave_run(member)
            self._warn(member, order.signal, order.only_shell)
            member.is_ending, member.waiting = True, []
            member.terminate_at = self._clock() + order.grace_s / 2

    def end_in(self, pools: Sequence[BundlePool], reason: str) -> None:
        """End the members in these bundles now."""
        for member in self._inside(pools):
            member.is_evicted = True
            self._end(member, 0.0)

    def _inside(self, pools: Sequence[BundlePool]) -> list[Member]:
        found = list(self._members.values())
        return [member for member in found if any(member.pool is pool for pool in pools)]

    def _end(self, member: Member, grace_s: float) -> None:
        member.kill_at = min(member.kill_at, self._clock() + grace_s)
        self._leave_run(member)
        if not member.is_ending:
            member.is_ending = True
            member.waiting = []
            self._logs.go_on(member)
            if grace_s:
                self._processes.terminate(member)
        if not grace_s:
            self._processes.kill(member.processes)
        if not member.running:
            self._finish(member)

    def _leave_run(self, member: Member) -> None:
        """Hand back to the head the array tasks that wait for the bundle of a member. This is done
        when the member is made to end: then the head decides what follows it. Also report a member
        that was not reported yet.
        """
        self._reports.stop_run(member.place, member.order.attempt)
        if member.is_quiet:
            self._reports.running(member)

    def began(self, process: bytes, pid: int) -> None:
        """Note that a command runs under this pid."""
        self._processes.began(process, pid)

    def exited(self, process: bytes, end: CommandEnd) -> bool:
        """Handle the end of a process. Returns False if no member has the process."""
        found = self._processes.exited(process, end)
        if found is None:
            return False
        member, step = found
        if step is not None:
            self._reports.step_ended(member, step, end)
            if member.is_through:
                self._finish(member)
            return True
        if trouble := self._admission.trouble_of(member, end):
            self._cannot_begin(member, trouble)
            return True
        if member.prepares:
            if not self._preparations.ended(member, end):
                self._finish(member)
            elif member.order.is_alone:
                self._begin_prepared(member)
            return True
        if end.code and not member.code:
            member.code, member.signal = end.code, end.signal
            member.reason = member.reason or end.reason
            member.is_parent_killed = end.is_parent_killed
            if not member.is_ending:
                # The member's other commands are useless without this one.
                self._end(member, member.order.grace_s)
                return True
        is_through = member.is_ending or not (member.waiting or member.order.commands)
        if not member.running and is_through:
            self._finish(member)
        elif not member.running:
            self._go_on(member)
        return True

    def _finish(self, member: Member) -> None:
        """Finish a member whose own commands have ended, as soon as its steps have ended, too.

        Steps that are asked to end with the member have the rest of the member's grace period.
        """
        if not member.is_through:
            member.is_through = True
            if not member.is_ending:
                self._processes.kill(member.steps)
        if member.steps:
            return
        order = member.order
        if member.code and not member.reason:
            written = message_in(self._files.error(order, ERROR_BYTES))
            member.reason = f"exit code {member.code}: {written}" if written else ""
        self._logs.ended(member, self._clock())
        del self._members[member.place]
        self._reports.note_end(member.place, order.attempt)
        member.pool.release(member.held)
        self._checks.after(member.usage.devices)
        how = member.reason or f"exit code {member.code}"
        self._note(f"member {order.name} has ended: {how}", job=order.job)
        self._reports.ended(member)
        if order.after is not None and (member.code or member.is_ending):
            self._processes.clean_up(member, order.after)
        self._continue_run(member.place)

    # ---- time --------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """End members that run too long, use too much, or do not end when asked."""
        for member in list(self._members.values()):
            self._look_at(member, now)
        self._reports.due_runs(now)
        self._logs.tick(now, self._members.values())
        self._processes.sample(now, self._members.values())
        for member, process, reason in self._processes.above_memory(now):
            member.blame_kill(reason)
            self._records.note_ending(member)
            self._processes.kill([process])
            self._end(member, member.order.grace_s)

    def _look_at(self, member: Member, now: float) -> None:
        if member.is_due(now):
            self._begin_commands(member)
        if now >= member.limit_at and not member.is_ending:
            limit = member.order.time_limit_s
            member.code, member.reason = TIMED_OUT, f"it ran longer than {limit:g} s"
            self._records.note_ending(member)
            self._end(member, member.order.grace_s)
        if now >= member.terminate_at:
            member.terminate_at = NEVER
            self._processes.terminate(member)
        if now >= member.kill_at:
            member.kill_at = NEVER
            self._processes.kill(member.processes)
        if member.is_quiet and now >= member.began_at + SHOWN_S:
            self._reports.running(member)
        if now >= member.began_at + HELD_S:  # the tasks behind a long task are returned to the head
            self._reports.stop_run(member.place)
