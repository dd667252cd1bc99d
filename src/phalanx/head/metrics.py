"""What the head has counted, and what its nodes said that they have, for who watches.

Nodes say their numbers now and then, and the head keeps the bytes: it reads them only of a node
that dies, as what is summed up over the nodes must not become less.
"""

from __future__ import annotations

from collections.abc import Callable

from phalanx.head.changes import ChangeLog
from phalanx.head.clock import Clock
from phalanx.head.nodes import NodeDirectory
from phalanx.model.lifecycle import DEAD
from phalanx.observe.metrics.catalogue import CATALOGUE, NODE
from phalanx.observe.metrics.definitions import GAUGE, Numbers, decode_numbers
from phalanx.observe.metrics.meter import Meter
from phalanx.protocol.cluster_messages import NodeNumbers
from phalanx.protocol.requests.metrics import (
    MAX_NODES,
    GetMetrics,
    MetricsNews,
    MetricsSince,
    NodeMetrics,
)
from phalanx.protocol.requests.request import Asker


class HeadMetrics:
    """One head's, and those of its nodes."""

    def __init__(
        self, meter: Meter, clock: Clock, nodes: NodeDirectory, look: Callable[[Meter], None]
    ) -> None:
        """`look` puts in what changes by itself, before somebody is told."""
        self._meter = meter
        self._nodes = nodes
        self._look = look
        self._began = clock.wall()
        """Names this head among those that came and will come."""
        self._said: dict[str, bytes] = {}
        self._changes: ChangeLog[str] = ChangeLog()

    def own(self) -> list[Numbers]:
        """What this head has counted, and what changes by itself."""
        self._look(self._meter)
        return self._meter.numbers()

    def reported(self, node_id: str, message: NodeNumbers) -> None:
        """A node says its numbers."""
        self._said[node_id] = message.numbers
        self._changes.note(node_id)

    def node_dead(self, node_id: str) -> None:
        """A node is given up: what it counted for the whole cluster stays counted."""
        said = self._said.pop(node_id, None)
        if said is None:
            return
        self._changes.note(node_id)
        for numbers in decode_numbers(said):
            definition = CATALOGUE.get(numbers.name)
            if definition is None or definition.kind == GAUGE or NODE in definition.labels:
                continue
            self._meter.take_in(numbers)

    def tell(self, asker: Asker[MetricsNews], request: GetMetrics) -> MetricsNews:
        """Answer."""
        since = request.since
        is_new = since.head != self._began
        version, names = self._changes.since(0 if is_new else since.version, MAX_NODES)
        return MetricsNews(
            since=MetricsSince(self._began, version),
            is_new=is_new,
            is_more=len(names) == MAX_NODES,
            own=self.own(),
            nodes=[
                NodeMetrics(name, self._hostname(name), self._said[name])
                for name in names
                if name in self._said
            ],
            gone=[name for name in names if name not in self._said],
        )

    def _hostname(self, node_id: str) -> str:
        record = self._nodes.get(node_id)
        return "" if record is None or record.state == DEAD else record.hostname
