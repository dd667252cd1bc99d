"""A lease: resources of a node and a worker in use."""

from __future__ import annotations

import msgspec

from phalanx.node.bundles import BundlePool
from phalanx.node.demands import Demand
from phalanx.node.workers import WorkerRecord
from phalanx.resources.instances import Allocation, NodeResources


class Lease(msgspec.Struct, kw_only=True, eq=False):
    """Resources and a worker in use."""

    number: int
    demand: Demand
    worker: WorkerRecord
    cpus: Allocation
    rest: Allocation
    pool: NodeResources | BundlePool
    since: float
    is_granted: bool = False
    is_due: bool = False
    is_blocked: bool = False

    @property
    def gives_way(self) -> bool:
        """Whether its worker is free for others after the task that it runs."""
        return not self.demand.actor and self.demand.group is None and not self.is_blocked

    @property
    def gang(self) -> bytes:
        """What its worker is told of its gang; empty outside gangs."""
        return self.pool.gang if isinstance(self.pool, BundlePool) else b""

    @property
    def resources(self) -> dict[str, float]:
        """Amounts held, by name."""
        return self.demand.hold.to_mapping()

    @property
    def devices(self) -> dict[str, list[int]]:
        """Device numbers held, by resource."""
        return {name: [i for i, _ in taken] for name, taken in self.rest.instances.items()}
