"""The head on a Ray cluster. Its messages to and from nodes pass through the scheduler's thread
(`scheduler_thread`), here called the Ray side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from phalanx.adapters.ray.scheduler.reservation import Whole
from phalanx.head.gangs.member_states import HOLDING
from phalanx.head.head import Head
from phalanx.head.nodes.liveness import HealthLimits
from phalanx.head.nodes.record import NodeRecord
from phalanx.head.outbox import Outbox
from phalanx.head.setup import HeadSetup, HeadShell
from phalanx.head.state_store import StateStore, StoredState
from phalanx.model.ids import GroupId, node_prefix
from phalanx.protocol.cluster_messages import ForwardedReply
from phalanx.protocol.report_messages import NodeReport
from phalanx.runtime.os.probing import ThreadProber
from phalanx.runtime.os.system import SystemClock, log_defect, unforeseeable
from phalanx.scheduler.placement.placement_policy import PlacementPolicy

if TYPE_CHECKING:
    from phalanx.head.gangs.gang_scheduler import GangScheduler
    from phalanx.head.queues.control import Queues

PAUSE = 0.2
"""The shortest pause between two cycles, as a multiple of the last cycle's length. Messages are
handled during the pause.
"""
MAX_AT_ONCE = 256
"""The largest number of equal gangs that a cycle examines in one step."""
CLIENTS = b""
"""The value in place of a node's prefix for programs and visitors, which ask the scheduler
directly.
"""


class ControlEffects(Protocol):
    """The effects that the head requests from the Ray side, to reach nodes and programs."""

    def send(self, prefix: bytes, message: Any) -> None:
        """Send a message to a node."""
        ...

    def incoming(self, prefix: bytes, message: Any, take_in: Callable[[Any], None]) -> None:
        """Pass a node's message to the Ray side. The Ray side calls `take_in` with it, now or
        later, to give it to the head.
        """
        ...

    def replied(self, reply: ForwardedReply) -> None:
        """Pass on a reply for a process that is not a node."""
        ...

    def node_dead(self, prefix: bytes) -> None:
        """Note that the head has declared a node dead."""
        ...


class RayOutbox(Outbox):
    """An outbox that also takes replies for programs and visitors, which are not nodes."""

    def __init__(self, effects: ControlEffects, state_store: StateStore) -> None:
        super().__init__(effects.send, state_store)
        self._replied = effects.replied

    def reply(self, prefix: bytes, reply: ForwardedReply) -> None:
        """Send a reply to a node, or to a program or visitor."""
        if prefix == CLIENTS:
            self._replied(reply)
        else:
            super().reply(prefix, reply)


class RayHead(Head):
    """The head of a cluster of Ray's nodes."""

    def __init__(
        self,
        effects: ControlEffects,
        state_store: StateStore,
        stored: StoredState,
        limits: HealthLimits,
        placement: PlacementPolicy,
    ) -> None:
        self._ray = effects
        super().__init__(
            RayOutbox(effects, state_store),
            state_store,
            HeadShell(
                clock=SystemClock(),
                rng=unforeseeable(),
                prober=ThreadProber(),
                report_defect=log_defect,
            ),
            stored=stored,
            setup=HeadSetup(limits=limits, placement=placement),
        )

    @property
    def gang_scheduler(self) -> GangScheduler:
        """The scheduler of queues and gangs. Its pauses between cycles are short, because little
        else runs in this thread.
        """
        if self.gangs_if_used is None:
            made = super().gang_scheduler
            made.cycles.pace = msgspec.structs.replace(made.cycles.pace, pause=PAUSE)
            made.registry.window.most = MAX_AT_ONCE
        return super().gang_scheduler

    @property
    def queues(self) -> Queues:
        """The cluster's queues."""
        return self.gang_scheduler.queues

    def outside_gangs(self) -> dict[str, float]:
        """Return the cluster's total of each resource, without the amounts that members of gangs
        hold.
        """
        amounts: dict[str, float] = {}
        for record in self.nodes.living():
            for name, amount in record.totals.items():
                amounts[name] = amounts.get(name, 0.0) + amount
        for gang in self.gang_scheduler.registry.active.values():
            for index in gang.within(HOLDING):
                for name, amount in gang.members[index].need.items():
                    amounts[name] = amounts.get(name, 0.0) - amount
        return amounts

    def on_message(self, prefix: bytes, message: Any, key: str = "") -> None:
        """Pass a node's message to the Ray side, which handles it before the head. Nodes on Ray
        have no keys.
        """
        self._ray.incoming(prefix, message, lambda passed: self.take_in(prefix, passed))

    def take_in(self, prefix: bytes, message: Any) -> None:
        """Give a node's message to the head now."""
        super().on_message(prefix, message)

    def free_changed(self, prefix: bytes, report: NodeReport, heard: float) -> None:
        """Update the amounts that Ray reports as available on a node. `heard`: the time of the
        node's last message.
        """
        self._messages.report(prefix, report, heard)

    def whole(self, group: GroupId, number: int) -> Whole | None:
        """Return the bundles of a group's attempt `number`; None if the nodes have already prepared
        all of them, or if the attempt is over.
        """
        scheduler = self.gangs_if_used
        gang = None if scheduler is None else scheduler.registry.gangs.get(group)
        attempt = None if scheduler is None else scheduler.reservations.attempts.get(group)
        if gang is None or attempt is None or attempt.is_committing or attempt.number != number:
            return None
        bundles = {
            node_prefix(node): {index: gang.members[index].need for index in indexes}
            for node, indexes in attempt.bundles.items()
        }
        return Whole(bundles, {node_prefix(node) for node in attempt.awaiting})

    def node_dead(self, record: NodeRecord, reason: str) -> None:
        """Declare a node dead (an effect of the node directory)."""
        self._ray.node_dead(record.prefix)
        super().node_dead(record, reason)
