"""Members whose commands continue when their node's process ends, and how the node's next process
continues with them.

A node writes a record of each such member before the member's first command begins, and deletes the
record once the head has stored how the member ended. So whenever a node's process dies, the node's
next process finds all members whose ends the head may not know.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from phalanx.model.ids import GangId, MemberId
from phalanx.protocol.bundle_messages import Command, StartMember

AttemptOf = tuple[GangId, int, int]
"""An attempt of a member, as (group, index in the group, number of the attempt)."""


class KeptMember(msgspec.Struct, kw_only=True):
    """The record of one attempt of a member. Fields that later versions add have defaults."""

    order: StartMember
    bundle: int
    """The number of the attempt to place the gang that reserved the member's bundle on the node.
    (This is not the number of the member's own attempt.)
    """
    amounts: dict[str, int]
    """The bundle's resources, in units of 1/10000."""
    devices: dict[str, list[tuple[int, int]]]
    """The devices of the bundle by resource, as (device number, units)."""
    log: str
    began: float
    """The time, on the node's clock, when the member's commands began."""
    processes: list[bytes] = []
    """The process ids of the member's commands that this node has started or was about to start, in
    this order. The commands in `order.before` come first, because they run first.
    """
    code: int = 0
    signal: int = 0
    reason: str = ""
    """Why the member ends, for example because its time is up; "" if it ends because its commands
    end.
    """

    @property
    def attempt(self) -> AttemptOf:
        """The attempt that the record describes."""
        return self.order.group, self.order.index, self.order.attempt

    @property
    def place(self) -> MemberId:
        """The bundle in which the member runs."""
        return self.order.group, self.order.index


class Keeping(Protocol):
    """Keeps the records, and starts commands that continue when the node's process ends."""

    def runs_on(self, command: Command) -> bool:
        """Whether a command can continue when the node's process ends."""
        ...

    def keep(self, member: KeptMember) -> None:
        """Write a member's record. It replaces an earlier record of the member. Raises OSError."""
        ...

    def forget(self, attempts: Collection[AttemptOf]) -> None:
        """Delete the records of attempts whose ends the head knows."""
        ...

    def run(self, process: bytes, order: StartMember, command: Command, log: str) -> None:
        """Start a command of a member that has a record. The arguments are those of
        `CommandEffects.run`.
        """
        ...


class NotKeeping:
    """The `Keeping` of a node whose commands end with the node's process."""

    def runs_on(self, command: Command) -> bool:
        """Return False: every command ends with the node's process."""
        return False

    def keep(self, member: KeptMember) -> None:
        """Do nothing."""

    def forget(self, attempts: Collection[AttemptOf]) -> None:
        """Do nothing."""

    def run(self, process: bytes, order: StartMember, command: Command, log: str) -> None:
        """Raise ValueError: no member has a record."""
        raise ValueError("no member is kept here")


# ---- what the next node does ---------------------------------------------------------------------

UNBEGUN: Final = "unbegun"
"""The state of a command whose process never began, and never will begin."""
RUNS: Final = "runs"
ENDED: Final = "ended"

GO_ON: Final = "go on"
"""The decision for a member that runs, or whose end was not reported yet: the node continues with
it.
"""
REPORT: Final = "report"
"""The decision for a member that has ended and whose place now belongs to a later member: only the
end is reported.
"""
BEGIN: Final = "begin"
"""The decision for a member of which nothing has begun: its bundle is kept, and the head repeats
its order.
"""
END: Final = "end"
"""The decision for a member that cannot continue here: its running processes are ended, and the
head finds the member missing.
"""


class Decision(NamedTuple):
    """A record, and the decision about its member."""

    member: KeptMember
    what: str


def decide(members: Sequence[KeptMember], states: Mapping[bytes, str]) -> list[Decision]:
    """Return a decision about each record, in the order in which the decisions must be carried out.

    `states`: the state of each process: it runs, has ended, or will never begin.
    """
    decisions = []
    last: dict[MemberId, int] = {}
    for member in members:
        last[member.place] = max(member.order.attempt, last.get(member.place, 0))
    for member in sorted(members, key=lambda one: one.attempt):
        is_last = member.order.attempt == last[member.place]
        decisions.append(Decision(member, _about(member, states, is_last)))
    return decisions


def _about(member: KeptMember, states: Mapping[bytes, str], is_last: bool) -> str:
    seen = [states.get(process, UNBEGUN) for process in member.processes]
    if not is_last:
        return REPORT if seen and all(one == ENDED for one in seen) else END
    return GO_ON if any(one != UNBEGUN for one in seen) else BEGIN


def begun(member: KeptMember, states: Mapping[bytes, str]) -> list[bytes]:
    """Return the member's processes that have begun: all before the first one that has not
    begun.
    """
    found = []
    for process in member.processes:
        if states.get(process, UNBEGUN) == UNBEGUN:
            break
        found.append(process)
    return found


def commands_left(order: StartMember, count: int) -> tuple[list[Command], list[Command]]:
    """Return the commands of an order without the first `count` commands, as (commands that run
    before the member's own commands, the member's own commands).
    """
    others = max(count - len(order.before), 0)
    return order.before[count:], order.commands[others:]
