"""Continues with the members of an earlier process of this node, before the node joins."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from phalanx.node.job_members import JobMembers
from phalanx.node.kept_members import (
    BEGIN,
    END,
    GO_ON,
    REPORT,
    AttemptOf,
    KeptMember,
    begun,
    decide,
)
from phalanx.node.member_effects import CommandEnd
from phalanx.node.node import Membership, Node
from phalanx.protocol.bundle_messages import Command
from phalanx.scheduler.devices.instances import Allocation
from phalanx.scheduler.devices.sets import ResourceSet


class EarlierCommands(Protocol):
    """The records that an earlier process of the node wrote, and the commands that it began."""

    def load(self) -> list[KeptMember]:
        """Return the members that have records."""
        ...

    def forget(self, attempts: Collection[AttemptOf]) -> None:
        """Delete the records of these attempts."""
        ...

    def state(self, process: bytes) -> str:
        """Return the state of a command: it runs (`kept_members.RUNS`), has ended, or will never
        begin.
        """
        ...

    def pid(self, process: bytes) -> int:
        """Return the pid of a command that has begun."""
        ...

    def how_ended(self, processes: Collection[bytes]) -> CommandEnd:
        """Return how a member with these commands has ended. All these commands must have ended."""
        ...

    def adopt(self, process: bytes, command: Command) -> None:
        """Watch a command that has begun, and report its end to the node."""
        ...

    def end(self, process: bytes) -> None:
        """End a command with which no node continues. If it has not begun, it will never begin."""
        ...


class TakingOver:
    """Takes over the members that have records."""

    def __init__(
        self, node: Node[Membership], earlier: EarlierCommands, clock: Callable[[], float]
    ) -> None:
        self._node = node
        self._earlier = earlier
        self._clock = clock

    @property
    def _members(self) -> JobMembers:
        return self._node.members

    def take_over(self) -> None:
        """Take over all members that can continue here, and end the others."""
        members = self._earlier.load()
        states = {p: self._earlier.state(p) for member in members for p in member.processes}
        for member, what in decide(members, states):
            if what in (GO_ON, BEGIN) and not self._take_bundle(member):
                what = END
            if what == GO_ON:
                self._go_on(member, begun(member, states))
            elif what == REPORT:
                end = self._earlier.how_ended(member.processes)
                self._members.report_ended(member, end, self._clock())
            elif what == BEGIN:
                self._earlier.forget([member.attempt])
            else:
                self._end(member)

    def _take_bundle(self, member: KeptMember) -> bool:
        devices = {name: tuple(taken) for name, taken in member.devices.items()}
        held = Allocation(resources=ResourceSet(member.amounts), instances=devices)
        return self._node.bundles.take_over(member.place, member.bundle, held)

    def _go_on(self, member: KeptMember, processes: list[bytes]) -> None:
        pids = {process: self._earlier.pid(process) for process in processes}
        commands = [*member.order.before, *member.order.commands]
        if not self._members.take_over(member, pids):
            self._end(member)
            return
        for process, command in zip(processes, commands, strict=False):
            self._earlier.adopt(process, command)

    def _end(self, member: KeptMember) -> None:
        for process in member.processes:
            self._earlier.end(process)
        self._earlier.forget([member.attempt])
