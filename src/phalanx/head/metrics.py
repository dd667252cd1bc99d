"""The metrics of the head and of its nodes.

Nodes send their numbers regularly, and the head keeps them encoded. When a node dies, the head
decodes the node's last numbers and keeps its counts in the cluster's sums, which must not decrease.
"""

from __future__ import annotations

from collections.abc import Callable

from phalanx.head.changes import ChangeLog
from phalanx.head.clock import Clock
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.model.lifecycle import DEAD
from phalanx.observe.metrics.catalogue import CATALOGUE, NODE
from phalanx.observe.metrics.definitions import GAUGE, Numbers, decode_numbers
from phalanx.observe.metrics.meter import Meter
from phalanx.protocol.report_messages import NodeNumbers
from phalanx.protocol.requests.metrics import (
    MAX_NODES,
    GetMetrics,
    MetricsNews,
    MetricsSince,
    NodeMetrics,
)
from phalanx.protocol.requests.request import Asker, Entry


class HeadMetrics:
    """The metrics of one head and its nodes."""

    def __init__(
        self, meter: Meter, clock: Clock, nodes: NodeDirectory, look: Callable[[Meter], None]
    ) -> None:
        """`look` is called before each answer. `look` sets the numbers that are computed on
        request.
        """
        self._meter = meter
        self._nodes = nodes
        self._look = look
        self._began = clock.wall()
        """A value that differs from head to head, by which askers notice a new head."""
        self._said: dict[str, bytes] = {}
        self._changes: ChangeLog[str] = ChangeLog()

    def entries(self) -> list[Entry]:
        """Return the requests that this object answers, each with its handler."""
        return [GetMetrics.handled_by(self.answer)]

    def own(self) -> list[Numbers]:
        """Return this head's numbers, including those that are computed on request."""
        self._look(self._meter)
        return self._meter.numbers()

    def reported(self, node_id: str, message: NodeNumbers) -> None:
        """Store a node's numbers."""
        self._said[node_id] = message.numbers
        self._changes.note(node_id)

    def node_dead(self, node_id: str) -> None:
        """Forget a dead node, but keep its counts in the sums for the whole cluster."""
        said = self._said.pop(node_id, None)
        if said is None:
            return
        self._changes.note(node_id)
        for numbers in decode_numbers(said):
            definition = CATALOGUE.get(numbers.name)
            if definition is None or definition.kind == GAUGE or NODE in definition.labels:
                continue
            self._meter.take_in(numbers)

    def answer(self, asker: Asker[MetricsNews], request: GetMetrics) -> MetricsNews:
        """Answer with the head's numbers, and with those nodes' numbers that have changed since the
        version in the request.
        """
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
            gone_nodes=[name for name in names if name not in self._said],
        )

    def _hostname(self, node_id: str) -> str:
        record = self._nodes.get(node_id)
        return "" if record is None or record.state == DEAD else record.hostname
