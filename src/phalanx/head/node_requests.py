"""Answers requests about nodes and their resources."""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.head.clock import Clock
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.head.outbox import Outbox
from phalanx.model.gpu_sharing import plain_amounts
from phalanx.model.lifecycle import ALIVE, DRAINING
from phalanx.model.rows.cluster import NodeInfo
from phalanx.protocol.cluster_messages import SetTotals, ViewRow
from phalanx.protocol.requests.cluster import (
    ChangeTotals,
    DeclarePools,
    GetAvailableResources,
    GetClusterResources,
    ListNodes,
)
from phalanx.protocol.requests.request import Asker, Entry
from phalanx.protocol.requests.view import GetViewChanges, ViewChanges

Amounts = dict[str, float]


class NodeRequests:
    """The handlers of requests about nodes."""

    def __init__(self, nodes: NodeDirectory, outbox: Outbox, clock: Clock) -> None:
        self._nodes = nodes
        self._clock = clock
        self._outbox = outbox

    def entries(self) -> list[Entry]:
        """Return the requests that this object answers, each with its handler."""
        return [
            GetViewChanges.handled_by(self._get_view_changes),
            ListNodes.handled_by(self._list_nodes),
            GetClusterResources.handled_by(self._get_cluster_resources),
            GetAvailableResources.handled_by(self._get_available_resources),
            ChangeTotals.handled_by(self._change_totals),
            DeclarePools.handled_by(self._declare_pools),
        ]

    def _declare_pools(self, asker: Asker[None], request: DeclarePools) -> None:
        self._nodes.expected.declare(request.pools, self._clock.now())

    def _get_view_changes(self, asker: Asker[ViewChanges], request: GetViewChanges) -> ViewChanges:
        return ViewChanges(*self._nodes.changes_since(request.since))

    def _list_nodes(self, asker: Asker[list[NodeInfo]], request: ListNodes) -> list[NodeInfo]:
        return self._nodes.rows()

    def _get_cluster_resources(
        self, asker: Asker[Amounts], request: GetClusterResources
    ) -> Amounts:
        rows = self._rows_of(ALIVE, DRAINING)
        return plain_amounts(_sum(row.total for row in rows))

    def _get_available_resources(
        self, asker: Asker[Amounts], request: GetAvailableResources
    ) -> Amounts:
        summed = plain_amounts(_sum(row.available for row in self._rows_of(ALIVE)))
        return {name: amount for name, amount in summed.items() if amount > 0}

    def _rows_of(self, *states: str) -> list[ViewRow]:
        nodes = self._nodes
        return [nodes.row(record.node_id) for record in nodes.all() if record.state in states]

    def _change_totals(self, asker: Asker[None], request: ChangeTotals) -> None:
        self._nodes.check_totals(request.node_id, request.totals)
        self._outbox.send_node(request.node_id, SetTotals(request.totals))


def _sum(amounts: Iterable[Amounts]) -> Amounts:
    summed: Amounts = {}
    for of_node in amounts:
        for name, amount in of_node.items():
            summed[name] = round(summed.get(name, 0) + amount, 4)
    return summed
