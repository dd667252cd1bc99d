"""Goes on with the members of an earlier process of this node, before the node joins."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from phalanx.node.job_members import JobMembers
from phalanx.node.kept_members import (
    BEGIN,
    END,
    ENDED,
    GO_ON,
    REPORT,
    RUNS,
    UNBEGUN,
    KeptMember,
    begun,
    decide,
)
from phalanx.node.node import Membership, Node
from phalanx.protocol.bundle_messages import Command
from phalanx.protocol.fork_messages import Exited
from phalanx.runtime.os.adopted_commands import AdoptedCommands, end_command
from phalanx.runtime.os.command_groups import CommandGroup, CommandGroups, find_command_groups
from phalanx.runtime.os.exit_files import Ending, is_held, read_exit_file
from phalanx.runtime.os.fork_client import how_it_ended
from phalanx.runtime.os.kept_records import KeptRecords
from phalanx.scheduler.devices.instances import Allocation
from phalanx.scheduler.devices.sets import ResourceSet

_WAIT_S = 0.005
_LOST = -9


class TakingOver:
    """Takes over the members that records describe."""

    def __init__(
        self,
        node: Node[Membership],
        records: KeptRecords,
        adopted: AdoptedCommands,
        clock: Callable[[], float],
    ) -> None:
        self._node = node
        self._records = records
        self._adopted = adopted
        self._clock = clock
        self._groups: CommandGroups = find_command_groups(os.getpid())
        self._endings: dict[bytes, Ending] = {}

    @property
    def _members(self) -> JobMembers:
        return self._node.members

    def take_over(self) -> None:
        """Take over all members that can go on here; end the others."""
        members = self._records.load()
        states = {p: self._state(p) for member in members for p in member.processes}
        for member, what in decide(members, states):
            if what in (GO_ON, BEGIN) and not self._take_bundle(member):
                what = END
            if what == GO_ON:
                self._go_on(member, begun(member, states))
            elif what == REPORT:
                self._report(member)
            elif what == BEGIN:
                self._records.forget([member.attempt])
            else:
                self._end(member)

    def _state(self, process: bytes) -> str:
        """Return whether a command runs. No command begins any more, because the processes that
        could start one have ended.
        """
        path = self._records.exit_file(process)
        while (ending := read_exit_file(path)) is None and is_held(path):
            time.sleep(_WAIT_S)  # its shield is about to write its pid
        if ending is None:
            return UNBEGUN
        self._endings[process] = ending
        return RUNS if ending.code is None else ENDED

    def _take_bundle(self, member: KeptMember) -> bool:
        devices = {name: tuple(taken) for name, taken in member.devices.items()}
        held = Allocation(resources=ResourceSet(member.amounts), instances=devices)
        return self._node.bundles.take_over(member.place, member.bundle, held)

    def _go_on(self, member: KeptMember, processes: list[bytes]) -> None:
        pids = {process: self._endings[process].pid for process in processes}
        commands = [*member.order.before, *member.order.commands]
        if not self._members.take_over(member, pids):
            self._end(member)
            return
        for process, command in zip(processes, commands, strict=False):
            path = self._records.exit_file(process)
            group = self._group(process, command)
            self._adopted.adopt(process, self._endings[process], path, group)

    def _group(self, process: bytes, command: Command) -> CommandGroup | None:
        return self._groups.find_of_earlier(process, int(command.memory_limit))

    def _report(self, member: KeptMember) -> None:
        endings = [self._endings[process] for process in member.processes]
        failed = next((one for one in endings if one.code), endings[-1])
        code = _LOST if failed.code is None else failed.code
        end = how_it_ended(Exited(member.processes[-1], failed.pid, code))
        self._members.report_ended(member, end, self._clock())

    def _end(self, member: KeptMember) -> None:
        for process in member.processes:
            if (ending := self._endings.get(process)) is not None:
                path = self._records.exit_file(process)
                end_command(ending, path, self._groups.find_of_earlier(process, 0))
        self._records.forget([member.attempt])
