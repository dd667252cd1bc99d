"""The processes of the members on this node. They are started, measured, limited, and sent
signals.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import msgspec

from phalanx.model.member_logs import preparing_log
from phalanx.node.member import Member, Step
from phalanx.node.member_effects import CommandEnd, MemberEffects
from phalanx.node.member_records import MemberRecords
from phalanx.node.memory_limits import MemoryLimits
from phalanx.node.shortage import Shortage
from phalanx.node.usage import SAMPLE_EVERY_S, Device, MemberUsage, UsageSample
from phalanx.protocol.bundle_messages import Command, Receivers, StartStep

MARK = b"member"
"""The first bytes of the process ids of commands. (Ids of workers begin with the node's prefix.)"""


class MemberProcesses:
    """The processes of commands and steps, by their ids."""

    def __init__(
        self,
        effects: MemberEffects,
        records: MemberRecords,
        shortage: Shortage,
        devices: Callable[[], Mapping[int, Device]],
    ) -> None:
        """`devices` returns the latest reading of the GPUs, by number."""
        self._effects = effects
        self._commands = effects.commands
        self._records = records
        self._shortage = shortage
        self._memory = MemoryLimits(effects.memory)
        self._devices = devices
        self._members: dict[bytes, Member] = {}
        self._sample_at = 0.0
        self._is_sampling = False

    # ---- begin and end -------------------------------------------------------------------------

    def run(self, member: Member, command: Command) -> None:
        """Start a command of a member."""
        process = self._name(member, command)
        member.running.add(process)
        variables = command.variables | member.variables
        cpus = member.usage.cpus
        command = msgspec.structs.replace(command, variables=variables, cpus=cpus)
        self._records.run(member, process, command)

    def prepare(self, member: Member, command: Command) -> None:
        """Start the command that prepares a member's environment. The command ends with the
        node.
        """
        process = self._name(member, command)
        member.running.add(process)
        self._commands.run(process, member.order, command, preparing_log(member.log))

    def clean_up(self, member: Member, command: Command) -> None:
        """Start the command that cleans up after a member that has ended (`after` in the member's
        order). The command belongs to no member.
        """
        process = MARK + self._effects.make_unique(10)
        self._commands.run(process, member.order, command, preparing_log(member.log))

    def run_step(self, member: Member, order: StartStep) -> None:
        """Start a step of a member."""
        process = self._name(member, order.command)
        member.steps[process] = Step(order, MemberUsage(0.0, (), self._effects.clock()))
        self._commands.run(process, member.order, order.command, member.log)

    def _name(self, member: Member, command: Command) -> bytes:
        """Make the id of a new process of a member."""
        process = MARK + self._effects.make_unique(10)
        self._know(member, process, command)
        return process

    def _know(self, member: Member, process: bytes, command: Command) -> None:
        self._members[process] = member
        self._memory.limit(process, command.memory_limit)

    def adopt(self, member: Member, process: bytes, command: Command, pid: int) -> None:
        """Continue with a command that an earlier process of this node started. `pid`: 0 if it is
        unknown.
        """
        member.running.add(process)
        self._know(member, process, command)
        if pid:
            self.began(process, pid)

    def began(self, process: bytes, pid: int) -> None:
        """Note that a process runs under this pid."""
        self._shortage.began()
        member = self._members.get(process)
        if member is not None:
            member.has_begun = not member.prepares
            member.usage.began(process, pid)
            if process in member.steps:
                member.steps[process].usage.began(process, pid)
        self._memory.began(process, pid)

    def exited(self, process: bytes, end: CommandEnd) -> tuple[Member, Step | None] | None:
        """Forget a process. Returns its member and, if the process was a step, the step; None if no
        member has the process.
        """
        member = self._members.pop(process, None)
        if member is None:
            return None
        member.usage.exited(process, end.cpu_s, end.memory)
        member.running.discard(process)
        self._memory.exited(process)
        step = member.steps.pop(process, None)
        if step is not None:
            step.usage.exited(process, end.cpu_s, end.memory)
        return member, step

    # ---- signals -------------------------------------------------------------------------------

    def terminate(self, member: Member) -> None:
        """Ask all processes of a member to end."""
        for process in member.processes:
            self._commands.terminate(process)

    def kill(self, processes: Collection[bytes]) -> None:
        """Kill these processes immediately."""
        for process in sorted(processes):
            self._commands.kill(process)

    def signal(self, processes: Collection[bytes], number: int, to: Receivers = "all") -> None:
        """Send signal `number` to commands; 0 stands for no signal. `to`: which processes of each
        command get the signal.
        """
        for process in sorted(processes) if number else ():
            self._commands.signal(process, number, to)

    # ---- measurements --------------------------------------------------------------------------

    def sample(self, now: float, members: Collection[Member]) -> None:
        """Take the latest measurement of usage, and begin another one if it is due."""
        meter = self._effects.usage
        if self._is_sampling and (seen := meter.answer()) is not None:
            self._is_sampling = False
            sample = UsageSample(seen, self._devices())
            for member in members:
                member.usage.sample(now, sample)
                for step in member.steps.values():
                    step.usage.sample(now, sample)
        if members and now >= self._sample_at and not self._is_sampling:
            self._sample_at = now + SAMPLE_EVERY_S
            pids = [pid for member in members for pid in member.usage.pids]
            if pids:
                self._is_sampling = True
                meter.ask(pids)

    def above_memory(self, now: float) -> list[tuple[Member, bytes, str]]:
        """Return the processes that use too much memory, as (member, process, reason)."""
        found = self._memory.above(now)
        return [(self._members[process], process, reason) for process, reason in found]
