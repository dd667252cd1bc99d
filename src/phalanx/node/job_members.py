"""Members of jobs on this node: commands that run in bundles, and leave nothing behind there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from phalanx.model.exit_codes import KILLED, NOT_STARTED, TIMED_OUT
from phalanx.node.bundle_pool import BundlePool
from phalanx.node.bundle_table import BundleTable
from phalanx.node.control_link import ControlLink
from phalanx.node.dispatch import MessageTable
from phalanx.node.notes import Note
from phalanx.node.usage import SAMPLE_EVERY_S, MemberUsage, UsageMeter
from phalanx.protocol.bundle_messages import (
    Command,
    EndMember,
    ForgetJob,
    LogRead,
    MemberNews,
    MemberUsed,
    ReadLog,
    StartMember,
    StartStep,
    StepStarted,
    WarnMember,
)
from phalanx.resources.instances import Allocation

REMEMBERED = 10_000
"""Of so many members that have ended here it is known."""
MAX_STEPS = 1_000
"""Of a member at a time."""
MARK = b"member"
"""The ids of their processes begin so; those of workers begin with the node's prefix."""
LOOK_AT_MEMORY_EVERY_S = 0.5
LOOK_AT_LOGS_EVERY_S = 0.1
"""Whoever prints without end writes a few hundred megabytes a second."""
NEVER = float("inf")


class CommandEffects(Protocol):
    """Starts and ends the processes of commands; `began` and `exited` follow."""

    def run(self, process: bytes, order: StartMember, command: Command, log: str) -> None:
        """Start a command under this id, with its output appended to `log`."""
        ...

    def terminate(self, process: bytes) -> None:
        """Ask a command by SIGTERM to end."""
        ...

    def kill(self, process: bytes) -> None:
        """End a command and all its children at once."""
        ...

    def warn(self, process: bytes, signal: int, only_shell: bool) -> None:
        """Send a command a signal (see WarnMember)."""
        ...


class JobFiles(Protocol):
    """The directories of jobs on this node."""

    def make(self, order: StartMember) -> str:
        """Make a member's directory and write its job's files. The path of its log.

        Raises OSError.
        """
        ...

    def remove(self, job: str) -> None:
        """Delete everything of a job."""
        ...

    def read(self, path: str, offset: int, limit: int) -> tuple[bytes, int, int]:
        """(a part of a log, how long the whole is, how many bytes from `offset` on are gone, which
        the part stood behind); length -1 for what is no file of a job."""
        ...

    def shorten(self, path: str) -> None:
        """Drop the oldest of a log that is longer than logs may be."""
        ...


class MemoryMeter(Protocol):
    """Measures what commands use."""

    def above(self, limits: Mapping[int, int]) -> dict[int, int]:
        """The bytes that these commands use, by pid, as far as they use more than their limits.
        A command's children count with it."""
        ...


class _Member(msgspec.Struct, kw_only=True, eq=False):
    order: StartMember
    pool: BundlePool
    held: Allocation
    log: str
    waiting: list[Command]
    """Of `before`, those that have not begun."""
    running: set[bytes] = set()
    steps: set[bytes] = set()
    """Programs beside its own, which end with it."""
    began_at: float
    usage: MemberUsage
    is_warned: bool = False
    code: int = 0
    reason: str = ""
    kill_at: float = NEVER
    limit_at: float = NEVER
    is_ending: bool = False
    is_through: bool = False
    """All that it was to run has ended."""
    is_evicted: bool = False
    """Its bundle was taken away: who did that knows, and gets no news."""


class _Limited(msgspec.Struct, eq=False):
    limit_bytes: int
    pid: int = 0
    """0 until it has begun."""


class JobMembers:
    """Does what the head orders for members of jobs."""

    def __init__(
        self,
        clock: Callable[[], float],
        bundles: BundleTable,
        control: ControlLink,
        commands: CommandEffects,
        files: JobFiles,
        memory: MemoryMeter,
        make_unique: Callable[[int], bytes],
        meter: UsageMeter,
        note: Note,
    ) -> None:
        """`make_unique(count)`: so many bytes that are never the same twice."""
        self._clock = clock
        self._bundles = bundles
        self._control = control
        self._commands = commands
        self._files = files
        self._memory = memory
        self._make_unique = make_unique
        self._meter = meter
        self._note = note
        self._members: dict[tuple[bytes, int], _Member] = {}
        self._of_process: dict[bytes, _Member] = {}
        self._over: dict[tuple[bytes, int], int] = {}
        """The last attempt of each member that ended here, or never began: it does not begin again,
        though the head may order so once more before it has heard of that."""
        self._limited: dict[bytes, _Limited] = {}
        self._look_at = 0.0
        """When memory is measured next."""
        self._look_at_logs_at = 0.0
        self._sample_at = 0.0
        self._is_sampling = False

    def handle_in(self, table: MessageTable) -> None:
        """Take the head's messages about members."""
        table.on(StartMember, self.start)
        table.on(EndMember, self.end)
        table.on(WarnMember, self.warn)
        table.on(StartStep, self.start_step)
        table.on(ForgetJob, self.forget)
        table.on(ReadLog, self.read_log)

    def __len__(self) -> int:
        """How many members are on this node."""
        return len(self._members)

    # ---- what the head orders ----------------------------------------------------------------

    def start(self, order: StartMember) -> None:
        """Run a member, unless it runs already: a head that came back orders it again."""
        key = (order.group, order.index)
        known = self._members.get(key)
        if known is not None and known.order.attempt >= order.attempt:
            self._report_running(known)
            return
        if order.attempt <= self._over.get(key, 0):
            return
        pool = next(self._bundles.pools(key), None)
        if pool is None:
            return  # it is being taken away again: who does that knows
        held = None if known is not None else pool.acquire(pool.resources)
        if held is None:
            self._never_began(key, order.attempt, "its place is taken")
            return
        try:
            log = self._files.make(order)
        except OSError as error:
            pool.release(held)
            why = f"its files could not be made: {error.strerror}"
            self._never_began(key, order.attempt, why)
            return
        began_at = self._clock()
        devices = [number for number, _ in held.instances.get("GPU", ())]
        member = _Member(
            order=order,
            pool=pool,
            held=held,
            log=log,
            waiting=list(order.before),
            began_at=began_at,
            usage=MemberUsage(held.resources.to_mapping().get("CPU", 0.0), devices, began_at),
        )
        if order.time_limit_s:
            member.limit_at = member.began_at + order.time_limit_s
        self._members[key] = member
        self._note(f"member {order.name} begins, start {order.attempt}", job=order.job)
        self._go_on(member)
        self._report_running(member)

    def _never_began(self, key: tuple[bytes, int], attempt: int, reason: str) -> None:
        self._is_over(key, attempt)
        self._control.notify(MemberNews(*key, attempt, NOT_STARTED, reason))

    def _is_over(self, key: tuple[bytes, int], attempt: int) -> None:
        self._over.pop(key, None)
        self._over[key] = attempt
        if len(self._over) > REMEMBERED:
            del self._over[next(iter(self._over))]

    def end(self, message: EndMember) -> None:
        """End a member: it may take its grace for that. One that was never heard of is over."""
        key = (message.group, message.index)
        member = self._members.get(key)
        if member is not None and member.order.attempt == message.attempt:
            self._end(member, member.order.grace_s)
        elif member is None and message.attempt > self._over.get(key, 0):
            self._never_began(key, message.attempt, "it was ended before it began")

    def start_step(self, order: StartStep) -> None:
        """Run one more program in a member's place."""
        member = self._members.get((order.group, order.index))
        if member is None or member.order.attempt != order.attempt or member.is_ending:
            self._control.notify(StepStarted(order.token, "it does not run any more"))
        elif len(member.steps) >= MAX_STEPS:
            why = f"it has {MAX_STEPS} steps already, which is the most at a time"
            self._control.notify(StepStarted(order.token, why))
        else:
            member.steps.add(self._begin(member, order.command))
            self._control.notify(StepStarted(order.token))

    def warn(self, message: WarnMember) -> None:
        """The time of a member is nearly over. A head that came back may say so once more."""
        member = self._members.get((message.group, message.index))
        if member is None or member.order.attempt != message.attempt or member.is_warned:
            return
        member.is_warned = True
        for process in sorted(member.running | member.steps):
            self._commands.warn(process, message.signal, message.only_shell)

    def warn_in(self, pools: Sequence[BundlePool]) -> None:
        """These bundles are taken away after a grace."""
        for member in self._inside(pools):
            member.is_evicted = True
            self._end(member, NEVER)  # the bundle's own grace counts

    def end_in(self, pools: Sequence[BundlePool], reason: str) -> None:
        """These bundles are taken away now."""
        for member in self._inside(pools):
            member.is_evicted = True
            self._end(member, 0.0)

    def _inside(self, pools: Sequence[BundlePool]) -> list[_Member]:
        found = list(self._members.values())
        return [member for member in found if any(member.pool is pool for pool in pools)]

    def forget(self, message: ForgetJob) -> None:
        """The job is gone, and so are its files."""
        self._files.remove(message.job)

    def read_log(self, message: ReadLog) -> None:
        """Answer with a part of a log."""
        data, size, skipped = self._files.read(message.path, message.offset, message.limit)
        self._control.notify(LogRead(message.token, data, size, skipped))

    # ---- processes ---------------------------------------------------------------------------

    def _go_on(self, member: _Member) -> None:
        """Start what comes next: the next of `before`, or the commands themselves."""
        if member.waiting:
            self._run(member, member.waiting.pop(0))
            return
        commands, member.order.commands = member.order.commands, []
        for command in commands:
            self._run(member, command)

    def _run(self, member: _Member, command: Command) -> None:
        member.running.add(self._begin(member, command))

    def _begin(self, member: _Member, command: Command) -> bytes:
        process = MARK + self._make_unique(10)
        self._of_process[process] = member
        if command.memory_limit:
            self._limited[process] = _Limited(command.memory_limit)
        self._commands.run(process, member.order, command, member.log)
        return process

    def began(self, process: bytes, pid: int) -> None:
        """A command runs under this pid."""
        member = self._of_process.get(process)
        if member is not None:
            member.usage.began(process, pid)
        limited = self._limited.get(process)
        if limited is not None:
            limited.pid = pid

    def exited(
        self, process: bytes, code: int, reason: str, cpu_s: float = 0.0, memory: int = 0
    ) -> bool:
        """A process has ended; `reason` says why, where the code alone does not; what it used, see
        Exited. False when it was no member's."""
        member = self._of_process.pop(process, None)
        if member is None:
            return False
        member.usage.exited(process, cpu_s, memory)
        member.running.discard(process)
        self._limited.pop(process, None)
        if process in member.steps:
            member.steps.discard(process)
            if member.is_through:
                self._ended(member)
            return True
        if code and not member.code:
            member.code = code
            member.reason = member.reason or reason
            if not member.is_ending:
                self._end(member, member.order.grace_s)  # the others are of no use without it
                return True
        is_through = member.is_ending or not (member.waiting or member.order.commands)
        if not member.running and is_through:
            self._ended(member)
        elif not member.running:
            self._go_on(member)
        return True

    def _end(self, member: _Member, grace_s: float) -> None:
        member.kill_at = min(member.kill_at, self._clock() + grace_s)
        if not member.is_ending:
            member.is_ending = True
            member.waiting = []
            self._signal(member, self._commands.terminate if grace_s else self._commands.kill)
        elif not grace_s:
            self._signal(member, self._commands.kill)
        if not member.running:
            self._ended(member)

    def _signal(self, member: _Member, send: Callable[[bytes], None]) -> None:
        for process in sorted(member.running | member.steps):
            send(process)

    def _ended(self, member: _Member) -> None:
        """All of its own has ended; it is over once its steps have."""
        if not member.is_through:
            member.is_through = True
            for process in sorted(member.steps):
                self._commands.kill(process)
        if member.steps:
            return
        order = member.order
        self._files.shorten(member.log)
        del self._members[order.group, order.index]
        self._is_over((order.group, order.index), order.attempt)
        member.pool.release(member.held)
        how = member.reason or f"exit code {member.code}"
        self._note(f"member {order.name} has ended: {how}", job=order.job)
        about, used = (order.group, order.index, order.attempt), member.usage.total(self._clock())
        if member.is_evicted:
            self._control.notify(MemberUsed(*about, used))
        else:
            code, reason = member.code, member.reason
            self._control.notify(MemberNews(*about, code, reason, member.log, used=used))

    def _report_running(self, member: _Member) -> None:
        order = member.order
        ran_s = max(self._clock() - member.began_at, 0.0)
        self._control.notify(
            MemberNews(order.group, order.index, order.attempt, log=member.log, ran_s=ran_s)
        )

    # ---- time --------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """End what runs for too long, uses too much, or does not end when it is asked to."""
        for member in list(self._members.values()):
            if now >= member.limit_at and not member.is_ending:
                limit = member.order.time_limit_s
                member.code, member.reason = TIMED_OUT, f"it ran longer than {limit:g} s"
                self._end(member, member.order.grace_s)
            if now >= member.kill_at:
                member.kill_at = NEVER
                self._signal(member, self._commands.kill)
        if self._members and now >= self._look_at_logs_at:
            self._look_at_logs_at = now + LOOK_AT_LOGS_EVERY_S
            for member in self._members.values():
                self._files.shorten(member.log)
        self._sample(now)
        if self._limited and now >= self._look_at:
            self._look_at = now + LOOK_AT_MEMORY_EVERY_S
            self._look_at_memory()

    def _sample(self, now: float) -> None:
        """Take in what was seen, and look again when it is time."""
        if self._is_sampling and (seen := self._meter.answer()) is not None:
            self._is_sampling = False
            for member in self._members.values():
                member.usage.sample(now, seen)
        if self._members and now >= self._sample_at and not self._is_sampling:
            self._sample_at = now + SAMPLE_EVERY_S
            of = [member.usage for member in self._members.values()]
            pids = [pid for usage in of for pid in usage.pids]
            if pids:
                self._is_sampling = True
                self._meter.ask(pids, sorted({number for usage in of for number in usage.devices}))

    def _look_at_memory(self) -> None:
        begun = {process: one for process, one in self._limited.items() if one.pid}
        above = self._memory.above({one.pid: one.limit_bytes for one in begun.values()})
        for process, one in begun.items():
            used = above.get(one.pid)
            if used is None:
                continue
            reason = f"it used {_text(used)} of memory, above its limit of {_text(one.limit_bytes)}"
            member = self._of_process[process]
            member.code, member.reason = member.code or KILLED, member.reason or reason
            self._commands.kill(process)
            self._end(member, member.order.grace_s)


def _text(size: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} GiB"
