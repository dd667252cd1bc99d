"""The records of members that continue when the node's process ends. From these records, the node's
next process learns of the members.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

import msgspec

from phalanx.node.bundle_pool import BundlePool
from phalanx.node.bundle_table import BundleTable
from phalanx.node.kept_members import AttemptOf, Keeping, KeptMember, NotKeeping, commands_left
from phalanx.node.member import Member, usage_of
from phalanx.node.member_effects import CommandEffects
from phalanx.node.notes import Note
from phalanx.protocol.bundle_messages import Command
from phalanx.scheduler.devices.instances import Allocation


class MemberRecords:
    """The records of the members on this node. A member without a record ends with the node's
    process.
    """

    def __init__(
        self, keeping: Keeping, bundles: BundleTable, commands: CommandEffects, note: Note
    ) -> None:
        self._keeping = keeping
        self._bundles = bundles
        self._commands = commands
        self._note = note

    def begin(self, member: Member) -> None:
        """Write a record of a new member, if all its commands can continue when the node's process
        ends.
        """
        order = member.order
        # A member that shares a GPU ends with its node, because the node enforces the member's
        # memory limit.
        if member.variables or not all(map(self._keeping.runs_on, order.before + order.commands)):
            return
        bundle = self._bundles.holding(member.place)
        if bundle is not None:
            attempt, held = bundle
            member.kept = KeptMember(
                order=msgspec.structs.replace(order),
                bundle=attempt,
                amounts=dict(held.resources.items()),
                devices={name: list(taken) for name, taken in held.instances.items()},
                log=member.log,
                began=member.began_at,
            )

    def run(self, member: Member, process: bytes, command: Command) -> None:
        """Record a command of a member, and start it."""
        if member.kept is not None:
            member.kept.processes.append(process)
            self._write(member)
        starter = self._commands if member.kept is None else self._keeping
        starter.run(process, member.order, command, member.log)

    def note_ending(self, member: Member) -> None:
        """Record why a member ends, for the node's next process."""
        if member.kept is not None:
            kept = member.kept
            kept.code, kept.signal, kept.reason = member.code, member.signal, member.reason
            self._write(member)

    def _write(self, member: Member) -> None:
        assert member.kept is not None
        try:
            self._keeping.keep(member.kept)
        except OSError as error:
            if len(member.kept.processes) == 1:
                member.kept = None
            self._note(f"member {member.order.name} ends with its node: {error.strerror}")

    def forgetting(self, ended: Sequence[AttemptOf]) -> Callable[[], None] | None:
        """Return the function that deletes the records of these attempts, to be called once the
        head knows that they have ended; None if they have no records.
        """
        has_records = ended and not isinstance(self._keeping, NotKeeping)
        return partial(self._keeping.forget, ended) if has_records else None


def resumed(
    kept: KeptMember, begun: Collection[bytes], pool: BundlePool, held: Allocation
) -> Member:
    """Return the member that a record describes, without its processes.

    `begun`: the processes that have begun. The commands after them have yet to begin.
    """
    order = kept.order
    kept.processes = [one for one in kept.processes if one in begun]
    waiting, left = commands_left(order, len(kept.processes))
    return Member(
        order=msgspec.structs.replace(order, commands=left),
        pool=pool,
        held=held,
        log=kept.log,
        waiting=waiting,
        began_at=kept.began,
        usage=usage_of(held, kept.began),
        kept=kept,
        has_begun=True,
        code=kept.code,
        signal=kept.signal,
        reason=kept.reason,
    )
