"""Events of this node: the tasks that its workers ran, and its exchanges with other nodes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from phalanx.model.ids import PREFIX_BYTES
from phalanx.node.dispatch import PeerMessageTable
from phalanx.node.leases.model import Demand, Lease
from phalanx.node.peers import Peer
from phalanx.observe.cluster_events import (
    DemandQueued,
    Event,
    EventRing,
    Forwarded,
    LeaseLent,
    NodeChosen,
)
from phalanx.observe.task_journal import Run, decode_runs
from phalanx.protocol.cluster_messages import Happened
from phalanx.protocol.node_messages import Events

KEEP_RUNS = 40_000
"""The number of finished runs that a node remembers."""


class NodeEvents:
    """The latest events and runs of a node."""

    def __init__(self, prefix: bytes, wall: Callable[[], float]) -> None:
        """`wall` returns the wall-clock time in seconds since the epoch."""
        self._prefix = prefix
        self._wall = wall
        self._ring = EventRing()
        self._runs: deque[tuple[bytes, Events]] = deque()
        self._run_count = 0
        self.received = 0
        """The number of reports of finished work that have arrived so far."""

    def handle_in(self, table: PeerMessageTable) -> None:
        """Register the handlers for events that processes have recorded."""
        table.on(Happened, self._happened)
        table.on(Events, self._ran)

    def _happened(self, peer: Peer, message: Happened) -> None:
        self._ring.extend(message.rows)

    def _ran(self, peer: Peer, message: Events) -> None:
        self.received += 1
        self._runs.append((peer.peer, message))
        self._run_count += max(message.count, 1)
        while self._run_count > KEEP_RUNS:
            self._run_count -= max(self._runs.popleft()[1].count, 1)

    def runs(
        self, before: Mapping[bytes, int] = MappingProxyType({})
    ) -> Iterator[tuple[bytes, Run]]:
        """Yield each remembered run with the process that reported it.

        The node numbers the reports in the order in which they arrive, from 0 on. `before`: a
        number for each of some processes. A report of such a process is included only if it has a
        smaller number.
        """
        first = self.received - len(self._runs)
        for number, (owner, one) in enumerate(self._runs, first):
            if number < before.get(owner, self.received):
                for run in decode_runs(one.runs):
                    yield owner, run

    def rows(self) -> list[dict[str, Any]]:
        """Return the remembered cluster events, the oldest first."""
        return self._ring.rows()

    def record(self, kind: type[Event], **fields: Any) -> None:
        """Record an event. Without `at`, its time is now."""
        fields.setdefault("at", self._wall())
        self._ring.record(kind(node=self._prefix.hex(), **fields))

    def queued(self, demand: Demand) -> None:
        """Record that a process of this node asked for workers while none was free."""
        place = demand.place.to_mapping()
        self.record(DemandQueued, **_named(demand), resources=place, count=demand.count)

    def asked(self, demand: Demand, node: bytes, count: int) -> None:
        """Record that another node was asked for workers."""
        if not demand.is_forwarded:
            demand.is_forwarded = True
            self.record(Forwarded, **_named(demand))
        self.record(NodeChosen, **_named(demand), chosen=node.hex(), count=count)

    def granted(self, lease: Lease) -> None:
        """Record that a worker of this node was granted to an owner on another node."""
        if lease.demand.owner[:PREFIX_BYTES] != self._prefix:
            self.record(LeaseLent, **_named(lease.demand), worker=lease.worker.worker_id.hex())


def _named(demand: Demand) -> dict[str, Any]:
    return {"owner": demand.owner.hex(), "scheduling_class": demand.scheduling_class}
