"""Orders to nodes about the members of a job: they start, warn or end a member, or run another
program in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from phalanx.head.clock import Clock
from phalanx.head.gangs.gang import Gang
from phalanx.head.gangs.gang_registry import GangRegistry
from phalanx.head.gangs.member_states import HELD
from phalanx.head.jobs import resting, time_limits
from phalanx.head.jobs.run_clock import RunClocks
from phalanx.head.jobs.starting import Starter, WantedStep
from phalanx.head.outbox import Outbox
from phalanx.model.ids import GangId
from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import JobRecord, MemberRecord
from phalanx.model.jobs.timing import WarningSignal
from phalanx.protocol.bundle_messages import Command, EndMember, WarnMember

Key = tuple[str, int]
"""A member of a job, as (group, index in the group)."""


class StepOrder(NamedTuple):
    """The order to run one more program, the node that gets it, and the member's index in its
    gang.
    """

    node_id: str
    group: GangId
    place: int
    attempt: int
    command: Command


class MemberOrders:
    """Sends orders about members to the nodes on which these members have their places."""

    def __init__(
        self,
        outbox: Outbox,
        registry: GangRegistry,
        clock: Clock,
        run_clocks: RunClocks,
        starter: Starter,
        number: Callable[[Gang, int], int],
    ) -> None:
        """`number` returns the number under which a node knows an attempt of a job in the job's
        place.
        """
        self._number = number
        self._outbox = outbox
        self._registry = registry
        self._clock = clock
        self._run_clocks = run_clocks
        self._starter = starter

    def start(self, job: JobRecord, gang: Gang, keys: Iterable[Key]) -> None:
        """Order nodes to start these members. All of them must have their places."""
        chosen = [gang.index_of(*key) for key in keys]
        held = [i for i in chosen if i is not None and gang.members[i].state == HELD]
        orders = self._starter.orders(job, gang, held, self._end_of(job))
        for index, order in orders.items():
            place = gang.members[index]
            place.attempt = self._number(gang, order.attempt)
            if place.ahead:
                order.attempt, order.start = place.attempt, order.attempt
            if (member := member_at(job, gang, index)) is not None:
                order.rest_s = resting.left_s(member, self._clock.wall())
        self._registry.keep(gang)
        for index, order in orders.items():
            self._outbox.order(gang.members[index].node, order)

    def step(self, job: JobRecord, gang: Gang, index: int, wanted: WantedStep) -> StepOrder:
        """Return the order for one more program of a running member."""
        command = self._starter.step(job, gang, index, self._end_of(job), wanted)
        place = gang.members[index]
        return StepOrder(place.node, gang.gang_id, index, place.attempt, command)

    def _end_of(self, job: JobRecord) -> float | None:
        """Return the wall-clock time at which the job must have ended; None if no limit applies."""
        self._run_clocks.keep(job, self._clock.now())
        now = self._clock.wall()
        left_s = time_limits.left_s(job, now)
        return None if left_s is None else now + left_s

    def warn(self, job: JobRecord, gang: Gang, signal: WarningSignal, node_id: str = "") -> None:
        """Send a signal to the job's running members; with `node_id`, only to the members on that
        node.
        """
        for index in gang.among(HELD):
            place, member = gang.members[index], member_at(job, gang, index)
            is_it = member is not None and member.attempt == place.start
            if (
                is_it
                and is_in(job, key_of(gang, index), st.RUNNING)
                and node_id in ("", place.node)
            ):
                number, only_shell = signal.number, signal.only_shell
                order = WarnMember(gang.gang_id, index, place.attempt, number, only_shell)
                self._outbox.order(place.node, order)

    def end(self, gang: Gang, index: int) -> None:
        """Order a node to end the current attempt of a member that has its place."""
        place = gang.members[index]
        self._outbox.order(place.node, EndMember(gang.gang_id, index, place.attempt))

    def give_again(self, job: JobRecord, gang: Gang, node_id: str) -> None:
        """Repeat the orders to a node that has connected again, because the node may have missed
        them.
        """
        if job.is_warned and job.spec.timing.signal is not None:
            self.warn(job, gang, job.spec.timing.signal, node_id)
        for index in gang.among(HELD):
            place, member = gang.members[index], member_at(job, gang, index)
            if place.node != node_id or member is None or member.attempt != place.start:
                continue
            if member.state in (st.PENDING, st.RUNNING):
                self.start(job, gang, [key_of(gang, index)])
            elif member.state == st.TERMINATING:
                self.end(gang, index)


def is_in(job: JobRecord, key: Key, state: str) -> bool:
    """Whether the job has that member, and the member is in that state."""
    member = job.member(*key)
    return member is not None and member.state == state


def key_of(gang: Gang, index: int) -> Key:
    """Return the member of the job that uses this place in the gang."""
    member = gang.members[index]
    return member.of_group, member.index


def member_at(job: JobRecord, gang: Gang, index: int) -> MemberRecord | None:
    """Return the record of the member that uses this place; None if the member no longer exists."""
    return job.member(*key_of(gang, index))
