"""Members of jobs on this node: commands that run in bundles, and leave nothing behind there."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from phalanx.engines.embedded.node.member_memory import MemoryWatch
from phalanx.engines.embedded.worker.commands import NOT_FOUND, NOT_STARTED
from phalanx.node.bundles import BundlePool
from phalanx.protocol.cluster_messages import (
    FILES,
    Command,
    EndMember,
    ForgetJob,
    LogRead,
    MemberNews,
    ReadLog,
    StartMember,
)
from phalanx.protocol.zygote_messages import Exited, RunCommand, SendSignal
from phalanx.resources.instances import Allocation

if TYPE_CHECKING:
    from phalanx.node.host import BundleHost

OF_MEMBERS = (StartMember, EndMember, ForgetJob, ReadLog)
KILLED = 137
"""The exit code of a command that is ended by SIGKILL, as shells give it."""
TIMED_OUT = 124
"""The exit code of a member that ran longer than it may, as `timeout` gives it."""
REMEMBERED = 10_000
"""Of how many members that have ended here it is known."""
MARK = b"member"
"""Ids of their processes begin so; those of workers begin with the node's prefix."""


class _Member(msgspec.Struct, kw_only=True, eq=False):
    order: StartMember
    pool: BundlePool
    held: Allocation
    log: str
    waiting: list[Command]
    """Of `before`, those that have not begun."""
    running: set[bytes] = set()
    code: int = 0
    reason: str = ""
    kill_at: float = float("inf")
    limit_at: float = float("inf")
    is_ending: bool = False
    is_evicted: bool = False
    """Its bundle was taken away: who did that knows, and is not told."""


class NodeMembers:
    """Does what the control store asks for members of jobs."""

    def __init__(self, shell: BundleHost) -> None:
        self._shell = shell
        self._members: dict[tuple[bytes, int], _Member] = {}
        self._of_process: dict[bytes, _Member] = {}
        self._over: dict[tuple[bytes, int], int] = {}
        """The last attempt of each member that ended here, or never began: it does not begin again,
        though the control store may say so once more before it has heard of that."""
        self._memory = MemoryWatch()

    def directory(self, job: str) -> str:
        """Where what belongs to a job lies on this node."""
        return os.path.join(self._shell.session.directory, "jobs", job)

    # ---- what the control store asks ---------------------------------------------------------

    def on_control(self, message: Any) -> None:
        """The control store says something of a member."""
        match message:
            case StartMember():
                self.start(message)
            case EndMember():
                self.end(message)
            case ForgetJob():
                self.forget(message.job)
            case ReadLog():
                self.read_log(message)

    def start(self, order: StartMember) -> None:
        """Run a member, unless it runs already: a head that came back says it again."""
        key = (order.group, order.index)
        known = self._members.get(key)
        if known is not None and known.order.attempt >= order.attempt:
            self._tell(known)
            return
        if order.attempt <= self._over.get(key, 0):
            return
        pool = next(self._shell.bundles.pools(key), None)
        if pool is None:
            return  # it is being taken away again: who does that knows
        held = None if known is not None else pool.acquire(pool.resources)
        if held is None:
            self._never_began(key, order.attempt, "its place is taken")
            return
        try:
            log = self._make_files(order)
        except OSError as error:
            pool.release(held)
            why = f"its files could not be made: {error.strerror}"
            self._never_began(key, order.attempt, why)
            self._shell.groups.settle()
            return
        member = _Member(order=order, pool=pool, held=held, log=log, waiting=list(order.before))
        if order.time_limit_s:
            member.limit_at = self._shell.clock() + order.time_limit_s
        self._members[key] = member
        self._go_on(member)
        self._tell(member)

    def _never_began(self, key: tuple[bytes, int], attempt: int, reason: str) -> None:
        self._is_over(key, attempt)
        self._shell.control.tell(MemberNews(*key, attempt, NOT_STARTED, reason))

    def _is_over(self, key: tuple[bytes, int], attempt: int) -> None:
        self._over.pop(key, None)
        self._over[key] = attempt
        if len(self._over) > REMEMBERED:
            del self._over[next(iter(self._over))]

    def _make_files(self, order: StartMember) -> str:
        directory = self.directory(order.job)
        os.makedirs(os.path.join(directory, order.name), mode=0o700, exist_ok=True)
        if order.files:
            files = os.path.join(directory, "files")
            os.makedirs(files, mode=0o700, exist_ok=True)
            for name, text in order.files.items():
                with open(os.path.join(files, os.path.basename(name)), "w") as file:
                    file.write(text + "\n")
        return os.path.join(directory, f"{order.name}.{order.attempt}.log")

    def end(self, message: EndMember) -> None:
        """End a member: it may take its grace for that. One that was never heard of is over."""
        key = (message.group, message.index)
        member = self._members.get(key)
        if member is not None and member.order.attempt == message.attempt:
            self._end(member, member.order.grace_s)
        elif member is None and message.attempt > self._over.get(key, 0):
            self._never_began(key, message.attempt, "it was ended before it began")

    def warn_in(self, pools: Sequence[BundlePool]) -> None:
        """These bundles are taken away after a grace."""
        for member in self._inside(pools):
            member.is_evicted = True
            self._end(member, float("inf"))  # the bundle's own grace counts

    def end_in(self, pools: Sequence[BundlePool]) -> None:
        """These bundles are taken away now."""
        for member in self._inside(pools):
            member.is_evicted = True
            self._end(member, 0.0)

    def _inside(self, pools: Sequence[BundlePool]) -> list[_Member]:
        found = list(self._members.values())
        return [member for member in found if any(member.pool is pool for pool in pools)]

    def forget(self, job: str) -> None:
        """The job is gone, and so are its files."""
        shutil.rmtree(self.directory(job), ignore_errors=True)

    def read_log(self, message: ReadLog) -> None:
        """Answer with a part of a log; only what belongs to jobs is read."""
        root = os.path.realpath(self.directory(""))
        path = os.path.realpath(message.path)
        data, size = b"", -1
        if path.startswith(root + os.sep):
            with contextlib.suppress(OSError), open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(message.offset)
                data = file.read(message.limit)
        self._shell.control.tell(LogRead(message.token, data, size))

    # ---- processes ---------------------------------------------------------------------------

    def _go_on(self, member: _Member) -> None:
        """Start what comes next: the next of `before`, or the commands themselves."""
        if member.waiting:
            self._run(member, member.waiting.pop(0))
            return
        commands, member.order.commands = member.order.commands, []
        for command in commands:
            self._run(member, command)

    def _new_process(self) -> bytes:
        """An id for a command's process that no other has."""
        return MARK + secrets.token_bytes(10)

    def _run(self, member: _Member, command: Command) -> None:
        process = self._new_process()
        member.running.add(process)
        self._of_process[process] = member
        directory = self.directory(member.order.job)
        self._memory.limit(process, command.memory_limit)
        own, files = os.path.join(directory, member.order.name), os.path.join(directory, "files")
        self._shell.ask_zygote(
            RunCommand(
                process,
                argv=[word.replace(FILES, files) for word in command.argv],
                variables={k: v.replace(FILES, files) for k, v in command.variables.items()},
                directory=command.directory or own,
                log=member.log,
                is_watched=command.memory_limit > 0,
            )
        )

    def runs(self, process: bytes, pid: int) -> None:
        """A process of ours has begun."""
        self._memory.runs(process, pid)

    def exited(self, message: Exited) -> bool:
        """A process of ours ended. False when it was none of a member's."""
        process, code = message.process, message.code
        member = self._of_process.pop(process, None)
        if member is None:
            return False
        member.running.discard(process)
        self._memory.ended(process)
        if code < 0:
            code = 128 - code
        if code and not member.code:
            member.code = code
            member.reason = member.reason or message.reason or _said(code)
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
        member.kill_at = min(member.kill_at, self._shell.clock() + grace_s)
        if not member.is_ending:
            member.is_ending = True
            member.waiting = []
            self._signal(member, signal.SIGTERM if grace_s else signal.SIGKILL)
        elif not grace_s:
            self._signal(member, signal.SIGKILL)
        if not member.running:
            self._ended(member)

    def _signal(self, member: _Member, number: int) -> None:
        for process in sorted(member.running):
            self._shell.ask_zygote(SendSignal(process, int(number)))

    def _ended(self, member: _Member) -> None:
        order = member.order
        del self._members[order.group, order.index]
        self._is_over((order.group, order.index), order.attempt)
        member.pool.release(member.held)
        if not member.is_evicted:
            self._shell.control.tell(
                MemberNews(
                    order.group, order.index, order.attempt, member.code, member.reason, member.log
                )
            )
        self._shell.groups.settle()

    def _tell(self, member: _Member) -> None:
        order = member.order
        self._shell.control.tell(
            MemberNews(order.group, order.index, order.attempt, log=member.log)
        )

    def tick(self, now: float) -> None:
        """End what runs for too long, uses too much, or does not end when it is asked to."""
        for member in list(self._members.values()):
            if now >= member.limit_at and not member.is_ending:
                limit = member.order.time_limit_s
                member.code, member.reason = TIMED_OUT, f"it ran longer than {limit:g} s"
                self._end(member, member.order.grace_s)
            if now >= member.kill_at:
                member.kill_at = float("inf")
                self._signal(member, signal.SIGKILL)
        for process, reason in self._memory.above(now):
            member = self._of_process[process]
            member.code, member.reason = member.code or KILLED, member.reason or reason
            self._shell.ask_zygote(SendSignal(process, int(signal.SIGKILL)))
            self._end(member, member.order.grace_s)


def _said(code: int) -> str:
    if code == NOT_FOUND:
        return "exit code 127: its command was not found"
    if code <= 128:
        return ""
    try:
        return f"it was ended by {signal.Signals(code - 128).name}"
    except ValueError:
        return ""
