"""The control store on a Ray cluster: the embedded engine's, behind a gate."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from phalanx.engines.ray.scheduler.reservation import Whole
from phalanx.head.control_plane import ControlPlane
from phalanx.head.nodes import HealthLimits, NodeRecord
from phalanx.head.state_store import StateStore
from phalanx.model.ids import node_prefix
from phalanx.model.lifecycle import PREPARED
from phalanx.protocol.cluster_messages import ForwardedReply, NodeReport

if TYPE_CHECKING:
    from phalanx.head.gangs.gang_scheduler import GangScheduler

PAUSE = 0.2
"""Between two cycles lies so many times what the last one took: words are heard then."""
MOST_AT_ONCE = 256
"""So many equal gangs are looked at together at most."""
CLIENTS = b""
"""Stands for the node of those who ask, and who are no nodes."""


class Gate(Protocol):
    """What stands between the control store and everybody else."""

    def send(self, prefix: bytes, message: Any) -> None:
        """Tell a node something."""
        ...

    def incoming(self, prefix: bytes, message: Any, take_in: Callable[[Any], None]) -> None:
        """A node says something: `take_in` has the control store hear it, now or later or never."""
        ...

    def replied(self, reply: ForwardedReply) -> None:
        """Somebody who is no node has a reply."""
        ...

    def node_dead(self, prefix: bytes) -> None:
        """A node is given up."""
        ...


class RayControl(ControlPlane):
    """See the module."""

    def __init__(self, gate: Gate, state_store: StateStore, limits: HealthLimits) -> None:
        self._gate = gate
        super().__init__(gate.send, state_store, limits)

    @property
    def batch(self) -> GangScheduler:
        """Queues and gangs; the scheduler's thread has nothing else to do."""
        if self.gangs_if_used is None:
            cycles = super().batch.cycles
            cycles.pause = PAUSE
            cycles.registry.window.most = MOST_AT_ONCE
        return super().batch

    def on_message(self, prefix: bytes, message: Any) -> None:
        """A node says something; what of it concerns Ray is dealt with on its way."""
        self._gate.incoming(prefix, message, lambda passed: self.take_in(prefix, passed))

    def take_in(self, prefix: bytes, message: Any) -> None:
        """A node's word has passed the gate."""
        super().on_message(prefix, message)

    def reply(self, prefix: bytes, reply: ForwardedReply) -> None:
        """To who asked, once all that the reply speaks of is written."""
        if prefix == CLIENTS:
            self.state_store.when_written(lambda: self._gate.replied(reply))
        else:
            super().reply(prefix, reply)

    def free_changed(self, prefix: bytes, report: NodeReport, heard: float) -> None:
        """Ray has other amounts free on a node that was last heard of then."""
        self._report(prefix, report, heard)

    def whole(self, group: bytes, number: int) -> Whole | None:
        """All of a group's attempt with this number; None when its nodes have set it aside, or it
        is over."""
        known = self.group_table.get(group)
        attempt = None if known is None or known.state == PREPARED else known.attempt
        if attempt is None or attempt.number != number:
            return None
        bundles = {
            node_prefix(node): {i: bundle.to_mapping() for i, bundle in there.items()}
            for node, there in attempt.bundles.items()
        }
        return Whole(bundles, {node_prefix(node) for node in attempt.awaiting})

    def node_dead(self, record: NodeRecord, reason: str) -> None:
        """A node is given up (effect of the directory)."""
        self._gate.node_dead(record.prefix)
        super().node_dead(record, reason)
