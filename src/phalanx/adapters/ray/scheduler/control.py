"""The control plane on a Ray cluster: what it says and hears passes what stands for Ray."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from phalanx.adapters.ray.scheduler.reservation import Whole
from phalanx.head.gangs.member_states import HOLDING
from phalanx.head.head import Head
from phalanx.head.nodes import HealthLimits, NodeRecord
from phalanx.head.outbox import Outbox
from phalanx.head.state_store import StateStore, StoredState
from phalanx.model.ids import node_prefix
from phalanx.protocol.cluster_messages import ForwardedReply, NodeReport
from phalanx.runtime.os.probing import ThreadProber
from phalanx.runtime.os.system import SystemClock, log_defect, unforeseeable
from phalanx.scheduler.placement.placement_policy import PlacementPolicy

if TYPE_CHECKING:
    from phalanx.head.gangs.gang_scheduler import GangScheduler
    from phalanx.head.queues.control import Queues

PAUSE = 0.2
"""Between two cycles lies this many times what the last one took: messages are heard then."""
MAX_AT_ONCE = 256
"""At most so many equal gangs are looked at together."""
CLIENTS = b""
"""Stands for the node of programs and visitors, which ask the scheduler themselves."""


class ControlEffects(Protocol):
    """What stands between the control plane and everybody else."""

    def send(self, prefix: bytes, message: Any) -> None:
        """Send a node something."""
        ...

    def incoming(self, prefix: bytes, message: Any, take_in: Callable[[Any], None]) -> None:
        """A node has sent something; `take_in` has the control plane hear it, perhaps later."""
        ...

    def replied(self, reply: ForwardedReply) -> None:
        """A process that is no node has a reply."""
        ...

    def node_dead(self, prefix: bytes) -> None:
        """A node is given up."""
        ...


class RayOutbox(Outbox):
    """Programs and visitors, which are no nodes, get their replies too."""

    def __init__(self, effects: ControlEffects, state_store: StateStore) -> None:
        super().__init__(effects.send, state_store)
        self._replied = effects.replied

    def reply(self, prefix: bytes, reply: ForwardedReply) -> None:
        """See Outbox."""
        if prefix == CLIENTS:
            self._replied(reply)
        else:
            super().reply(prefix, reply)


class RayHead(Head):
    """See the module."""

    def __init__(
        self,
        effects: ControlEffects,
        state_store: StateStore,
        stored: StoredState,
        limits: HealthLimits,
        placement: PlacementPolicy,
    ) -> None:
        self._effects = effects
        super().__init__(
            RayOutbox(effects, state_store),
            state_store,
            SystemClock(),
            unforeseeable(),
            ThreadProber(),
            stored=stored,
            limits=limits,
            placement=placement,
            report_defect=log_defect,
        )

    @property
    def gang_scheduler(self) -> GangScheduler:
        """Queues and gangs; the scheduler's thread has nothing else to do."""
        if self.gangs_if_used is None:
            made = super().gang_scheduler
            made.cycles.pace = msgspec.structs.replace(made.cycles.pace, pause=PAUSE)
            made.registry.window.most = MAX_AT_ONCE
        return super().gang_scheduler

    @property
    def queues(self) -> Queues:
        """See TasksCluster."""
        return self.gang_scheduler.queues

    def outside_gangs(self) -> dict[str, float]:
        """See TasksCluster."""
        amounts: dict[str, float] = {}
        for record in self.nodes.living():
            for name, amount in record.totals.items():
                amounts[name] = amounts.get(name, 0.0) + amount
        for gang in self.gang_scheduler.registry.active.values():
            for index in gang.within(HOLDING):
                for name, amount in gang.members[index].need.items():
                    amounts[name] = amounts.get(name, 0.0) - amount
        return amounts

    def on_message(self, prefix: bytes, message: Any) -> None:
        """A node has sent something; what of it concerns Ray is dealt with on its way."""
        self._effects.incoming(prefix, message, lambda passed: self.take_in(prefix, passed))

    def take_in(self, prefix: bytes, message: Any) -> None:
        """The control plane is to hear this of a node now."""
        super().on_message(prefix, message)

    def free_changed(self, prefix: bytes, report: NodeReport, heard: float) -> None:
        """Ray has other amounts free on a node that was last heard of then."""
        self._report(prefix, report, heard)

    def whole(self, group: bytes, number: int) -> Whole | None:
        """All of a group's attempt with this number; None when its nodes have set it aside, or it
        is over."""
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
        """A node is given up (effect of the directory)."""
        self._effects.node_dead(record.prefix)
        super().node_dead(record, reason)
