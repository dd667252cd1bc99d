"""Members of jobs on this node: commands that run in bundles and leave nothing behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import msgspec

from phalanx.model.exit_codes import KILLED, NOT_STARTED, SIGNALLED, TIMED_OUT
from phalanx.model.ids import GangId, MemberId
from phalanx.model.lost_output import MAY_BE_LOST
from phalanx.model.member_use import MemberUse
from phalanx.model.shortages import is_shortage
from phalanx.node.bundle_pool import BundlePool
from phalanx.node.bundle_table import BundleTable
from phalanx.node.device_holders import Holder, holder_of
from phalanx.node.directories import Directories, NoDirectories
from phalanx.node.dispatch import MessageTable
from phalanx.node.error_files import ERROR_BYTES, told_in
from phalanx.node.followed_logs import FollowedLogs
from phalanx.node.gpu_shares import GpuShares, NoMpsDaemons
from phalanx.node.head_link import HeadLink
from phalanx.node.kept_logs import KeptLogs
from phalanx.node.kept_members import AttemptOf, Keeping, KeptMember, NotKeeping, commands_left
from phalanx.node.member_effects import (
    CommandEnd,
    MemberChecks,
    MemberEffects,
    NoMemberChecks,
)
from phalanx.node.member_runs import HELD_S, SHOWN_S, MemberRuns
from phalanx.node.memory_limits import MemoryLimits
from phalanx.node.shortage import Shortage
from phalanx.node.usage import SAMPLE_EVERY_S, Device, MemberUsage, UsageSample
from phalanx.protocol.bundle_messages import (
    Command,
    EndMember,
    ExtendRun,
    ForgetJob,
    LogRead,
    MemberNews,
    MemberUsed,
    MemberUseRead,
    ReadLog,
    ReadMemberUse,
    Receivers,
    RunNews,
    SignalMember,
    StartMember,
    StartStep,
    StepEnded,
    StepStarted,
    StopRun,
    WarnMember,
)
from phalanx.scheduler.devices.instances import Allocation

REMEMBERED = 10_000
"""The number of members that ended here and are still remembered."""
MAX_STEPS = 1_000
"""The most steps that a member can have at a time."""
MARK = b"member"
"""The first bytes of a command's process id; ids of workers begin with the node's prefix."""
LOOK_AT_LOGS_EVERY_S = 0.1
"""Seconds between two looks: a program can print a few hundred megabytes in a second."""
NEVER = float("inf")


class _Step(msgspec.Struct, eq=False):
    order: StartStep
    usage: MemberUsage


class _Member(msgspec.Struct, kw_only=True, eq=False):
    order: StartMember
    pool: BundlePool
    held: Allocation
    log: str
    waiting: list[Command]
    """The commands of `before` that have not begun."""
    running: set[bytes] = set()
    steps: dict[bytes, _Step] = {}
    """Additional programs of the member, which end with it."""
    began_at: float
    """When the member's commands began or, if the member rests, when they are to begin."""
    usage: MemberUsage
    kept: KeptMember | None = None
    """Its record, if it goes on when this node ends."""
    variables: dict[str, str] = {}
    """Those that tell its programs what they may use of shared GPUs."""
    rests: bool = False
    """Whether the member crashed before and rests until its commands may begin."""
    has_begun: bool = False
    """Whether one of the member's processes has begun."""
    is_nodes_fault: bool = False
    """Whether the member could not begin because its node is not well."""
    is_quiet: bool = False
    """Whether the member is a task of a run about which the head has not heard that it runs."""
    is_parent_killed: bool = False
    """Whether the member's failed command ended because its parent was killed."""
    is_warned: bool = False
    code: int = 0
    signal: int = 0
    """The signal that ended the member's first failed command; 0 if no signal did."""
    reason: str = ""
    terminate_at: float = NEVER
    """When the member is sent SIGTERM, after the signal of its job."""
    kill_at: float = NEVER
    limit_at: float = NEVER
    is_ending: bool = False
    is_through: bool = False
    """Whether all of the member's own commands have ended."""
    is_evicted: bool = False
    """Whether the member's bundle was taken away. The head did that, so it gets no news of
    the end.
    """


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
        keeping: Keeping | None = None,
        gpus: GpuShares | None = None,
    ) -> None:
        """`devices`: the latest reading of the GPUs, by number. `report` tells the head at once
        about the node's health, before the head hears that a member could not begin here. `gpus`:
        the shares of GPUs that members may use.
        """
        self._clock = clock = effects.clock
        self._bundles = bundles
        self._head = head
        self._commands = effects.commands
        self._files = files = effects.files
        self._memory = MemoryLimits(effects.memory)
        self._make_unique = effects.make_unique
        self._meter = effects.usage
        self._note = note = effects.note
        self._devices = devices
        self._checks = checks or NoMemberChecks()
        self._directories = directories or Directories(NoDirectories(), clock, note)
        self._shortage = shortage or Shortage(clock, note)
        self._gpus = gpus or GpuShares(NoMpsDaemons())
        self._kept_logs = KeptLogs(files)
        self._followed = FollowedLogs()
        self._directories.make_room = self._kept_logs.drop_oldest
        self._report = report
        self._keeping = keeping or NotKeeping()
        self._members: dict[MemberId, _Member] = {}
        self._runs = MemberRuns()
        self._of_process: dict[bytes, _Member] = {}
        self._over: dict[MemberId, int] = {}
        """The last attempt of each member that ended here or never began.

        Such an attempt does not begin again if the head repeats its order before it has heard of
        the end.
        """
        self._look_at_logs_at = 0.0
        self._sample_at = 0.0
        self._is_sampling = False

    def handle_in(self, table: MessageTable) -> None:
        """Register the handlers for the head's messages about members."""
        table.on(StartMember, self.start)
        table.on(ExtendRun, self.extend)
        table.on(StopRun, self.stop_run)
        table.on(EndMember, self.end)
        table.on(WarnMember, self.warn)
        table.on(SignalMember, self.signal)
        table.on(StartStep, self.start_step)
        table.on(ForgetJob, self.forget)
        table.on(ReadLog, self.read_log)
        table.on(ReadMemberUse, self._read_use)

    def __len__(self) -> int:
        """Return how many members are on this node."""
        return len(self._members)

    def holders(self) -> Iterator[Holder]:
        """Yield a holder for each member that runs."""
        for member in self._members.values():
            order = member.order
            yield holder_of(
                f"{order.job.removeprefix('default/')} {order.name}",
                member.held,
                member.pool,
                self._gpus.card_memory,
                tuple(member.usage.pids),
                _key(order),
                is_member=True,
            )

    def end_now(self, key: bytes, reason: str) -> None:
        """End the member with this key at once, as its use of a GPU cannot go on."""
        for member in list(self._members.values()):
            if _key(member.order) == key:
                if not member.code:
                    member.code, member.signal = KILLED, KILLED - SIGNALLED
                member.reason = member.reason or reason
                self._end(member, 0.0)

    # ---- what the head orders ----------------------------------------------------------------

    def start(self, order: StartMember) -> None:
        """Run a member, unless it runs already: a head that came back repeats its orders."""
        key = (order.group, order.index)
        known = self._members.get(key)
        if known is not None and known.order.attempt >= order.attempt:
            self._report_running(known)
            return
        if order.attempt > self._over.get(key, 0):
            self._begin_attempt(order, known)

    def extend(self, message: ExtendRun) -> None:
        """Add tasks to the run in a place; they begin after the tasks before them."""
        is_outdated = self._runs.is_outdated(message)
        key = self._runs.extend(message)
        if is_outdated:
            self._stop_run(key)
        self._continue_run(key)

    def stop_run(self, message: StopRun) -> None:
        """Return the tasks of a run that have not begun, and show the task that runs."""
        key = (message.group, message.index)
        self._stop_run(key)
        member = self._members.get(key)
        if member is not None and member.is_quiet:
            self._report_running(member)

    def _continue_run(self, key: MemberId) -> None:
        """Begin the next task of a run if its place is free. Without a next task, report at
        once.
        """
        while key not in self._members and (order := self._runs.next(key)) is not None:
            if next(self._bundles.pools(key), None) is None:  # the place is gone
                self._runs.put_back(order)
                self._stop_run(key)
                return
            self._begin_attempt(order, None, is_quiet=True)
        if not self._runs.waits(key) and key not in self._members:
            self._report_run(key)

    def _report_run(self, key: MemberId) -> None:
        """Report the tasks that ended well in a place, before other news of the place."""
        self._send_run(self._runs.flushed(key, self._clock()))

    def _send_run(self, news: RunNews | None) -> None:
        if news is not None:
            ended = [(news.group, news.index, one.attempt) for one in news.ended]
            self._tell(news, ended)

    def _tell(self, news: MemberNews | MemberUsed | RunNews, ended: Sequence[AttemptOf]) -> None:
        """Report something; once the head has it, the records of the ended are not needed."""
        if ended and not isinstance(self._keeping, NotKeeping):
            self._head.notify(news, partial(self._keeping.forget, ended))
        else:
            self._head.notify(news)

    def _stop_run(self, key: MemberId, attempt: int = 0) -> None:
        """Return the tasks in a place that have not begun. `attempt`: the attempt that runs or ends
        there, if the head decides what follows it.
        """
        self._runs.told(key, attempt)
        self._send_run(self._runs.stopped(key, self._clock()))

    def _begin_attempt(
        self, order: StartMember, known: _Member | None, is_quiet: bool = False
    ) -> None:
        key = (order.group, order.index)
        pool = next(self._bundles.pools(key), None)
        if pool is None:
            return  # the member's place is being taken away: the head did that, so it knows
        held = None if known is not None else pool.acquire(pool.resources)
        if held is None:
            self._never_began(key, order.attempt, "its place is taken")
            return
        trouble, why, log = self._directories.seen() or self._shortage.trouble, "", ""
        variables: dict[str, str] = {}
        try:
            variables = {} if trouble else self._gpus.variables(held, pool)
        except OSError as error:
            trouble = f"GPUs cannot be shared by MPS: {error}"
        try:
            log = "" if trouble else self._files.make(order)
        except OSError as error:
            why = f"its files could not be made: {error.strerror}"
            missing = self._shortage.failed(why) if is_shortage(error) else ""
            trouble = self._directories.look(writes=True) or missing
        if trouble or why:
            pool.release(held)
            why = f"its node is not well: {trouble}" if trouble else why
            self._never_began(key, order.attempt, why, is_nodes_fault=bool(trouble))
            return
        self._kept_logs.begins_again(log)
        if order.is_followed:
            self._followed.begin(log, self._clock())
        began_at = self._clock() + order.rest_s
        devices = [number for number, _ in held.instances.get("GPU", ())]
        member = _Member(
            order=order,
            pool=pool,
            held=held,
            log=log,
            waiting=list(order.before),
            began_at=began_at,
            usage=MemberUsage(held.resources.to_mapping().get("CPU", 0.0), devices, self._clock()),
            variables=variables,
            rests=order.rest_s > 0,
            is_quiet=is_quiet,
        )
        if order.time_limit_s:
            member.limit_at = member.began_at + order.time_limit_s
        # A member that shares a GPU ends with its node, which holds it to its part of the memory.
        goes_on = all(map(self._keeping.runs_on, (*order.before, *order.commands)))
        if goes_on and not variables:
            member.kept = self._record(member)
        self._members[key] = member
        if not member.rests:
            self._begin_commands(member)

    def _begin_commands(self, member: _Member) -> None:
        order, member.rests = member.order, False
        self._note(f"member {order.name} begins, start {order.attempt}", job=order.job)
        if not self._checks.before(member.usage.devices, partial(self._checked, member)):
            self._go_on(member)
        if not member.is_quiet:
            self._report_running(member)

    def _checked(self, member: _Member, reason: str) -> None:
        """Begin a member whose node was checked. If `reason` is not empty, the member cannot
        begin.
        """
        key = (member.order.group, member.order.index)
        if self._members.get(key) is not member or member.is_ending:
            return
        if not reason:
            self._go_on(member)
            return
        self._cannot_begin(member, reason)

    def _cannot_begin(self, member: _Member, reason: str) -> None:
        """End a member that could not begin through no fault of its own. It is to begin later."""
        member.is_nodes_fault = True
        member.code, member.reason = NOT_STARTED, f"its node is not well: {reason}"
        self._end(member, 0.0)

    def _never_began(
        self, key: MemberId, attempt: int, reason: str, is_nodes_fault: bool = False
    ) -> None:
        self._note_end(key, attempt)
        self._stop_run(key, attempt)
        if is_nodes_fault:
            self._report()
        news = MemberNews(*key, attempt, NOT_STARTED, reason, is_nodes_fault=is_nodes_fault)
        self._head.notify(news)

    def _note_end(self, key: MemberId, attempt: int) -> None:
        """Remember that an attempt is over, because orders may be repeated."""
        self._over.pop(key, None)
        self._over[key] = attempt
        if len(self._over) > REMEMBERED:
            del self._over[next(iter(self._over))]

    def end(self, message: EndMember) -> None:
        """End a member within its grace period. A member that this node has never heard of counts
        as ended.
        """
        key = (message.group, message.index)
        member = self._members.get(key)
        if member is not None and member.order.attempt == message.attempt:
            self._end(member, member.order.grace_s)
        elif member is None and message.attempt > self._over.get(key, 0):
            self._never_began(key, message.attempt, "it was ended before it began")

    def start_step(self, order: StartStep) -> None:
        """Run one more program inside a member."""
        member = self._members.get((order.group, order.index))
        if member is None or member.order.attempt != order.attempt or member.is_ending:
            self._head.notify(StepStarted(order.token, "it does not run any more"))
        elif member.rests:
            self._head.notify(StepStarted(order.token, "it rests after a crash"))
        elif len(member.steps) >= MAX_STEPS:
            why = f"it already has {MAX_STEPS} steps, the most at a time"
            self._head.notify(StepStarted(order.token, why))
        else:
            usage = MemberUsage(0.0, (), self._clock())
            process = self._name(member, order.command)
            member.steps[process] = _Step(order, usage)
            self._commands.run(process, member.order, order.command, member.log)
            self._head.notify(StepStarted(order.token))

    def warn(self, message: WarnMember) -> None:
        """Send a member the signal that its time is nearly over. A head may repeat the order."""
        member = self._members.get((message.group, message.index))
        if member is None or member.order.attempt != message.attempt or member.is_warned:
            return
        member.is_warned = True
        for process in sorted({*member.running, *member.steps}):
            to: Receivers = "command" if message.only_shell else "started"
            self._commands.signal(process, message.signal, to)

    def signal(self, message: SignalMember) -> None:
        """Send a member a signal that somebody requested. If the member survives the signal, it
        goes on.
        """
        member = self._members.get((message.group, message.index))
        if member is None or member.order.attempt != message.attempt:
            return
        steps = [] if message.to == "command" else sorted(member.steps)
        for process in steps:
            self._commands.signal(process, message.signal, "all")
        if not steps or message.to == "all":
            for process in sorted(member.running):
                self._commands.signal(process, message.signal, message.to)

    def warn_in(self, pools: Sequence[BundlePool]) -> None:
        """End the members in these bundles within the grace period of the bundles."""
        for member in self._inside(pools):
            member.is_evicted = True
            order = member.order
            has_been_told = member.is_warned or member.is_ending
            if not order.signal or has_been_told or not member.running:
                self._end(member, NEVER)  # the bundle's own grace period applies
                continue
            self._leave_run(member)
            self.warn(WarnMember(*_about(order), order.signal, order.only_shell))
            member.is_ending, member.waiting = True, []
            member.terminate_at = self._clock() + order.grace_s / 2

    def end_in(self, pools: Sequence[BundlePool], reason: str) -> None:
        """End the members in these bundles now."""
        for member in self._inside(pools):
            member.is_evicted = True
            self._end(member, 0.0)

    def _inside(self, pools: Sequence[BundlePool]) -> list[_Member]:
        found = list(self._members.values())
        return [member for member in found if any(member.pool is pool for pool in pools)]

    def forget(self, message: ForgetJob) -> None:
        """Delete the files of a job that is gone."""
        self._files.remove(message.job)
        self._kept_logs.forget(message.job)

    def read_log(self, message: ReadLog) -> None:
        """Answer with a part of a log."""
        if message.is_followed:
            self._followed.read(message.path, message.offset, self._clock())
        data, size, skipped = self._files.read(message.path, message.offset, message.limit)
        self._head.notify(LogRead(message.token, data, size, skipped))

    def _read_use(self, message: ReadMemberUse) -> None:
        members = (one for one in self._members.values() if one.log == message.path)
        member = next(members, None)
        use = MemberUse() if member is None else member.usage.over_time()
        self._head.notify(MemberUseRead(message.token, use))

    # ---- processes ---------------------------------------------------------------------------

    def _go_on(self, member: _Member) -> None:
        """Start the next command of `before` or, if there is none, the member's own commands."""
        if member.waiting:
            self._run(member, member.waiting.pop(0))
            return
        commands, member.order.commands = member.order.commands, []
        for command in commands:
            self._run(member, command)

    def _run(self, member: _Member, command: Command) -> None:
        process = self._name(member, command)
        member.running.add(process)
        if member.variables:
            variables = command.variables | member.variables
            command = msgspec.structs.replace(command, variables=variables)
        if member.kept is not None:
            member.kept.processes.append(process)
            self._write(member)
        starter = self._commands if member.kept is None else self._keeping
        starter.run(process, member.order, command, member.log)

    def _name(self, member: _Member, command: Command) -> bytes:
        """Return the id of a new process of a member."""
        process = MARK + self._make_unique(10)
        self._of_process[process] = member
        self._memory.limit(process, command.memory_limit)
        return process

    # ---- members that outlive the node -------------------------------------------------------

    def _record(self, member: _Member) -> KeptMember | None:
        order = member.order
        bundle = self._bundles.holding((order.group, order.index))
        if bundle is None:
            return None
        attempt, held = bundle
        return KeptMember(
            order=msgspec.structs.replace(order),
            bundle=attempt,
            amounts=dict(held.resources.items()),
            devices={name: list(taken) for name, taken in held.instances.items()},
            log=member.log,
            began=member.began_at,
        )

    def _write(self, member: _Member) -> None:
        """Write a member's record. Without one, the member ends with this node."""
        if member.kept is None:
            return
        try:
            self._keeping.keep(member.kept)
        except OSError as error:
            if len(member.kept.processes) == 1:
                member.kept = None
            self._note(f"member {member.order.name} ends with its node: {error.strerror}")

    def _note_ending(self, member: _Member) -> None:
        """Write why a member ends, for a node that comes after this one."""
        if member.kept is not None:
            kept = member.kept
            kept.code, kept.signal, kept.reason = member.code, member.signal, member.reason
            self._write(member)

    def take_over(self, kept: KeptMember, begun: Mapping[bytes, int]) -> bool:
        """Go on with a member of an earlier process of this node, whose bundle is here.

        `begun`: its processes that have begun, with their pids; `exited` follows for those that
        have ended. Returns False when the bundle is not free.
        """
        order = kept.order
        pool = next(self._bundles.pools(kept.place), None)
        held = None if pool is None else pool.acquire(pool.resources)
        if pool is None or held is None:
            return False
        devices = [number for number, _ in held.instances.get("GPU", ())]
        cpus = held.resources.to_mapping().get("CPU", 0.0)
        kept.processes = [one for one in kept.processes if one in begun]
        waiting, left = commands_left(order, len(kept.processes))
        commands = [*order.before, *order.commands]
        member = _Member(
            order=msgspec.structs.replace(order, commands=left),
            pool=pool,
            held=held,
            log=kept.log,
            waiting=waiting,
            began_at=kept.began,
            usage=MemberUsage(cpus, devices, kept.began),
            kept=kept,
            has_begun=True,
            code=kept.code,
            signal=kept.signal,
            reason=kept.reason,
        )
        if order.time_limit_s:
            member.limit_at = member.began_at + order.time_limit_s
        self._members[kept.place] = member
        self._kept_logs.begins_again(kept.log)
        if order.is_followed:
            self._followed.begin(kept.log, self._clock())
        for process, command in zip(kept.processes, commands, strict=False):
            member.running.add(process)
            self._of_process[process] = member
            self._memory.limit(process, command.memory_limit)
            self.began(process, begun[process])
        self._note(f"member {order.name} goes on, start {order.attempt}", job=order.job)
        return True

    def report_ended(self, kept: KeptMember, end: CommandEnd, now: float) -> None:
        """Report the end of a member of an earlier process, whose place another one has by now."""
        self._note_end(kept.place, kept.order.attempt)
        used = MemberUsage(0.0, (), kept.began).total(now)
        code, reason = kept.code or end.code, kept.reason or end.reason
        news = MemberNews(
            *kept.attempt, code, reason, kept.log, used=used, signal=kept.signal or end.signal
        )
        self._tell(news, [kept.attempt])

    # ---- the ends of processes ---------------------------------------------------------------

    def began(self, process: bytes, pid: int) -> None:
        """Note that a command runs under this pid."""
        self._shortage.began()
        member = self._of_process.get(process)
        if member is not None:
            member.has_begun = True
            member.usage.began(process, pid)
            if process in member.steps:
                member.steps[process].usage.began(process, pid)
        self._memory.began(process, pid)

    def exited(self, process: bytes, end: CommandEnd) -> bool:
        """Handle the end of a process. Returns False if it was not a process of a member."""
        member = self._of_process.pop(process, None)
        if member is None:
            return False
        member.usage.exited(process, end.cpu_s, end.memory)
        member.running.discard(process)
        self._memory.exited(process)
        step = member.steps.pop(process, None)
        if step is not None:
            step.usage.exited(process, end.cpu_s, end.memory)
            self._step_ended(member, step, end.code, end.signal)
            if member.is_through:
                self._ended(member)
            return True
        if end.is_unstarted and not member.has_begun and not member.is_ending:
            missing = self._shortage.failed(end.reason) if end.is_shortage else ""
            trouble = self._directories.look(writes=True) or missing
            if trouble:
                self._cannot_begin(member, trouble)
                return True
        if end.code and not member.code:
            member.code, member.signal = end.code, end.signal
            member.reason = member.reason or end.reason
            member.is_parent_killed = end.is_parent_killed
            if not member.is_ending:
                # the member's other commands are useless without this one
                self._end(member, member.order.grace_s)
                return True
        is_through = member.is_ending or not (member.waiting or member.order.commands)
        if not member.running and is_through:
            self._ended(member)
        elif not member.running:
            self._go_on(member)
        return True

    def _step_ended(self, member: _Member, step: _Step, code: int, signal: int) -> None:
        order, used = step.order, step.usage.total(self._clock())
        if order.step >= 0:
            is_cut = member.is_ending or member.is_through
            number, task = order.step, order.task
            news = StepEnded(*_about(member.order), number, task, code, is_cut, used, signal)
            self._head.notify(news)

    def _end(self, member: _Member, grace_s: float) -> None:
        member.kill_at = min(member.kill_at, self._clock() + grace_s)
        self._leave_run(member)
        if not member.is_ending:
            member.is_ending = True
            member.waiting = []
            self._go_on_printing(member)
            self._signal(member, self._commands.terminate if grace_s else self._commands.kill)
        elif not grace_s:
            self._signal(member, self._commands.kill)
        if not member.running:
            self._ended(member)

    def _leave_run(self, member: _Member) -> None:
        """Return the tasks that wait behind a member that will not end by itself, and show the
        member.
        """
        self._stop_run((member.order.group, member.order.index), member.order.attempt)
        if member.is_quiet:
            self._report_running(member)

    def _signal(self, member: _Member, send: Callable[[bytes], None]) -> None:
        for process in sorted({*member.running, *member.steps}):
            send(process)

    def _ended(self, member: _Member) -> None:
        """Finish a member whose own commands have ended, once its steps have ended as well.

        Steps that were asked to end with the member have the rest of its grace period.
        """
        if not member.is_through:
            member.is_through = True
            for process in [] if member.is_ending else sorted(member.steps):
                self._commands.kill(process)
        if member.steps:
            return
        order = member.order
        if member.code and not member.reason:
            written = told_in(self._files.error(order, ERROR_BYTES))
            member.reason = f"exit code {member.code}: {written}" if written else ""
        self._bound(member.log)
        self._kept_logs.ended(order.job, member.log, self._clock())
        self._say_what_is_lost(member)
        del self._members[order.group, order.index]
        self._note_end((order.group, order.index), order.attempt)
        member.pool.release(member.held)
        self._checks.after(member.usage.devices)
        how = member.reason or f"exit code {member.code}"
        self._note(f"member {order.name} has ended: {how}", job=order.job)
        self._report_end(member)
        self._continue_run((order.group, order.index))

    def _report_end(self, member: _Member) -> None:
        about, used = _about(member.order), member.usage.total(self._clock())
        ended = [] if member.kept is None else [about]
        if member.is_evicted:
            self._tell(MemberUsed(*about, used), ended)
            return
        code, reason, is_ours = member.code, member.reason, member.is_nodes_fault
        if member.is_quiet and not (code or reason or is_ours):
            self._runs.ended(member.order, member.log, used, self._clock())
            return
        if code or is_ours:
            self._stop_run(about[:2], member.order.attempt)
        self._report_run(about[:2])
        if is_ours:
            self._report()
        log = "" if is_ours else member.log
        self._tell(
            MemberNews(
                *about,
                code,
                reason,
                log,
                used=used,
                is_nodes_fault=is_ours,
                signal=member.signal,
                is_parent_killed=member.is_parent_killed,
            ),
            ended,
        )

    def _say_what_is_lost(self, member: _Member) -> None:
        """Add to the reason that output was lost: programs write their logs themselves, so nobody
        else notices.
        """
        self._directories.seen()
        if not member.has_begun:
            return
        if self._files.is_lost(member.log):
            lost = f"its log was removed or moved, and its {MAY_BE_LOST}"
        elif self._directories.was_full_since(member.began_at):
            lost = f"the disk of its log had no room, and {MAY_BE_LOST}"
        else:
            return
        how = member.reason or (f"exit code {member.code}" if member.code else "")
        member.reason = f"{how}; {lost}" if how else lost

    def _report_running(self, member: _Member) -> None:
        if member.rests:
            return
        order, member.is_quiet = member.order, False
        self._report_run((order.group, order.index))
        ran_s = max(self._clock() - member.began_at, 0.0)
        self._head.notify(
            MemberNews(order.group, order.index, order.attempt, log=member.log, ran_s=ran_s)
        )

    # ---- time --------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """End members that run too long, use too much, or do not end when asked."""
        for member in list(self._members.values()):
            if member.rests and now >= member.began_at and not member.is_ending:
                self._begin_commands(member)
            if now >= member.limit_at and not member.is_ending:
                limit = member.order.time_limit_s
                member.code, member.reason = TIMED_OUT, f"it ran longer than {limit:g} s"
                self._note_ending(member)
                self._end(member, member.order.grace_s)
            if now >= member.terminate_at:
                member.terminate_at = NEVER
                self._signal(member, self._commands.terminate)
            if now >= member.kill_at:
                member.kill_at = NEVER
                self._signal(member, self._commands.kill)
            self._look_at_run(member, now)
        for news in self._runs.due(now):
            self._send_run(news)
        if (self._members or self._followed) and now >= self._look_at_logs_at:
            self._look_at_logs_at = now + LOOK_AT_LOGS_EVERY_S
            self._look_at_logs(now)
        self._kept_logs.tick(now)
        self._sample(now)
        for process, reason in self._memory.above(now):
            self._uses_too_much(process, reason)

    def _look_at_logs(self, now: float) -> None:
        """Shorten logs that are too large, and stop members whose followed output is not read fast
        enough.
        """
        by_log = {member.log: member for member in self._members.values()}
        for path in self._followed.silent(now):
            if path in by_log:
                self._go_on_printing(by_log[path])
            self._followed.forget(path)
            self._files.shorten(path)
        for path, member in by_log.items():
            self._bound(path)
            if self._followed.read_to(path) is not None and not member.is_ending:
                _, size, _ = self._files.read(path, 0, 0)
                self._send(member, self._followed.signal(path, size))

    def _bound(self, log: str) -> None:
        """Drop the oldest part of a log that is too large. Output that a command has not read
        stays.
        """
        self._files.shorten(log, self._followed.read_to(log))

    def _go_on_printing(self, member: _Member) -> None:
        self._send(member, self._followed.go_on(member.log))

    def _send(self, member: _Member, number: int) -> None:
        if number:
            for process in sorted(member.running):
                self._commands.signal(process, number, "all")

    def _look_at_run(self, member: _Member, now: float) -> None:
        """Show a task of a run that takes long. If it takes even longer, return the tasks behind
        it.
        """
        if member.is_quiet and now >= member.began_at + SHOWN_S:
            self._report_running(member)
        if now >= member.began_at + HELD_S:
            self._stop_run((member.order.group, member.order.index))

    def _sample(self, now: float) -> None:
        """Process the latest measurement of usage, and begin another one when it is time."""
        if self._is_sampling and (seen := self._meter.answer()) is not None:
            self._is_sampling = False
            sample = UsageSample(seen, self._devices())
            for member in self._members.values():
                member.usage.sample(now, sample)
                for step in member.steps.values():
                    step.usage.sample(now, sample)
        if self._members and now >= self._sample_at and not self._is_sampling:
            self._sample_at = now + SAMPLE_EVERY_S
            pids = [pid for member in self._members.values() for pid in member.usage.pids]
            if pids:
                self._is_sampling = True
                self._meter.ask(pids)

    def _uses_too_much(self, process: bytes, reason: str) -> None:
        member = self._of_process[process]
        if not member.code:
            member.code, member.signal = KILLED, KILLED - SIGNALLED
        member.reason = member.reason or reason
        self._note_ending(member)
        self._commands.kill(process)
        self._end(member, member.order.grace_s)


def _key(order: StartMember) -> bytes:
    return order.group + order.index.to_bytes(8, "big")


def _about(order: StartMember) -> tuple[GangId, int, int]:
    return order.group, order.index, order.attempt
