"""Drains nodes immediately, and empties them by a deadline: work that still runs there is ended,
and is run again elsewhere. A drain at a planned time is a reservation (`reservations`).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from phalanx.head.clock import Clock
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.head.nodes.record import NodeRecord
from phalanx.head.outbox import Outbox
from phalanx.head.rights.owners import signed
from phalanx.model.holds import DRAIN, Hold
from phalanx.model.lifecycle import DEAD
from phalanx.protocol.cluster_messages import EndWork
from phalanx.protocol.requests.cluster import DrainNode, UndrainNode
from phalanx.protocol.requests.request import Asker, Entry

GRACE_S = 30.0
"""Seconds from a node's deadline until its remaining work is killed. The kill is repeated at this
interval, because more work may start there, for example in the bundles of a placement group.
"""


class Draining:
    """The nodes that drain with a deadline."""

    def __init__(
        self,
        nodes: NodeDirectory,
        outbox: Outbox,
        clock: Clock,
        vacate: Callable[[str], None],
    ) -> None:
        """`vacate` moves the members of gangs and jobs on a node back to waiting for a place."""
        self._nodes = nodes
        self._outbox = outbox
        self._clock = clock
        self._vacate = vacate
        self._deadlines = {r.node_id: r.holds[DRAIN].deadline for r in nodes.all() if _ends(r)}
        """The deadline of each draining node, in seconds since the epoch."""
        self._again_at: dict[str, float] = {}
        """For each node past its deadline: the time, on the head's clock, when its work is next
        ordered to end.
        """

    def entries(self) -> list[Entry]:
        """Return the requests that this object answers, each with its handler."""
        return [
            DrainNode.handled_by(self.drain),
            UndrainNode.handled_by(self.undrain),
        ]

    def drain(self, asker: Asker[bool], request: DrainNode) -> bool:
        """Drain a node, with a deadline if one is given. Returns False if the node was already
        draining.
        """
        self._nodes.check_alive(request.node_id)
        known = self._nodes.get(request.node_id)
        if known is not None and DRAIN in known.holds and request.within_s <= 0:
            return False
        wall = self._clock.wall()
        hold = Hold(
            reason=request.reason,
            by=signed(request.by, asker),
            since=wall,
            deadline=wall + request.within_s if request.within_s > 0 else 0.0,
        )
        is_new = self._nodes.hold(request.node_id, DRAIN, hold)
        self._forget(request.node_id)
        if hold.deadline:
            self._deadlines[request.node_id] = hold.deadline
        return is_new

    def undrain(self, asker: Asker[bool], request: UndrainNode) -> bool:
        """Let a node take work again. Returns whether the node was draining."""
        did = self._nodes.release(request.node_id, DRAIN)
        self._forget(request.node_id)
        return did

    def node_joined(self, record: NodeRecord) -> None:
        """Repeat the drain order to a joining node, which may have missed it."""
        self._again_at.pop(record.node_id, None)
        if _ends(record):
            self._deadlines[record.node_id] = record.holds[DRAIN].deadline

    def clock_stepped(self, step_s: float) -> None:
        """Shift deadlines after the clock was stepped by this many seconds, so that the remaining
        times stay the same.
        """
        for record in self._nodes.all():
            if _ends(record):
                hold = record.holds[DRAIN]
                deadline = hold.deadline + step_s
                record.holds[DRAIN] = msgspec.structs.replace(hold, deadline=deadline)
                self._nodes.amended(record)
                if record.node_id in self._deadlines:
                    self._deadlines[record.node_id] = deadline

    def tick(self, now: float) -> None:
        """Empty the nodes whose deadline has passed."""
        if not self._deadlines:
            return
        wall = self._clock.wall()
        for node_id, deadline in list(self._deadlines.items()):
            if not self._nodes.is_alive(node_id):
                self._forget(node_id)
            elif wall >= deadline and now >= self._again_at.get(node_id, now):
                self._empty(node_id, now)

    def _empty(self, node_id: str, now: float) -> None:
        is_first = node_id not in self._again_at
        self._again_at[node_id] = now + GRACE_S
        self._vacate(node_id)
        record = self._nodes.get(node_id)
        assert record is not None, "what is alive is known"
        reason = f"its node drains: {record.holds[DRAIN].reason}"
        self._outbox.order(node_id, EndWork(reason, by_force=not is_first))

    def _forget(self, node_id: str) -> None:
        self._deadlines.pop(node_id, None)
        self._again_at.pop(node_id, None)


def _ends(record: NodeRecord) -> bool:
    hold = record.holds.get(DRAIN)
    return record.state != DEAD and hold is not None and bool(hold.deadline)
