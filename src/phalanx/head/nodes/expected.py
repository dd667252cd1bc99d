"""Nodes that programs may start when work needs them. Work that would fit on such nodes is not
refused, although no node of the cluster could hold the work now.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from phalanx.head.nodes.record import NodeRecord
from phalanx.protocol.requests.cluster import NodePool

STAY_S = 900.0
"""Seconds for which pools are known after they were declared. `phalanx provision` declares them in
each of its rounds.
"""


class ExpectedNodes:
    """The nodes that the declared pools may add."""

    def __init__(self) -> None:
        self._pools: Sequence[NodePool] = ()
        self._until = float("-inf")

    def declare(self, pools: Sequence[NodePool], now: float) -> None:
        """Replace the known pools."""
        self._pools, self._until = pools, now + STAY_S

    def tick(self, now: float) -> None:
        """Forget pools that nobody declares any more."""
        if now >= self._until:
            self._pools = ()

    def records(self, living: Iterable[NodeRecord]) -> list[NodeRecord]:
        """Return a record for each node that the pools may still add to the living nodes."""
        if not self._pools:
            return []
        names = {record.name for record in living}
        return [
            _record(pool, name) for pool in self._pools for name in pool.names if name not in names
        ]

    def booting(self, living: Iterable[NodeRecord]) -> dict[str, list[str]]:
        """Return, by pool, the names of the nodes whose machines are booting."""
        names = {record.name for record in living}
        return {
            pool.name: waiting
            for pool in self._pools
            if (waiting := [name for name in pool.booting if name not in names])
        }


def _record(pool: NodePool, name: str) -> NodeRecord:
    return NodeRecord(
        node_id=f"expected {name}",
        prefix=b"",
        host="",
        port=0,
        hostname=name,
        name=name,
        totals=pool.resources,
        labels=pool.labels,
    )
