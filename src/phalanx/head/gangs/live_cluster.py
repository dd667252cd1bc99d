"""The head's cluster as cycles read it: nodes, queues, network domains and gangs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from phalanx.head.gangs.gang_registry import GangRegistry
from phalanx.head.gangs.network_domains import Domains
from phalanx.head.gangs.offered_ports import ports_of
from phalanx.head.gangs.outside_work import OutsideWork
from phalanx.head.gangs.podgroups import PodGroups
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.head.nodes.record import NodeRecord
from phalanx.head.queues.control import Queues
from phalanx.head.reservations.control import ReservationControl
from phalanx.manifests.quantities import batch_amounts
from phalanx.model.gpu_sharing import CARDS
from phalanx.model.lifecycle import ALIVE
from phalanx.scheduler.cycle.specs import Amounts, HyperNodeSpec, NodeSpec, QueueSpec

PODS = 1e6
"""The number of members that a node may have. The number is so large that it limits nothing."""
_MIB = 2**20


class LiveCluster(PodGroups):
    """The cluster as a source for snapshots (ClusterSource)."""

    def __init__(
        self,
        nodes: NodeDirectory,
        queues: Queues,
        domains: Domains,
        registry: GangRegistry,
        outside_work: OutsideWork,
        calendar: ReservationControl,
    ) -> None:
        super().__init__()
        self.reservations = calendar.reservations
        self.licenses = calendar.license_specs
        self._outside_work = outside_work
        self._nodes = nodes
        self._queues = queues
        self._domains = domains
        self._registry = registry

    def nodes(self) -> Iterable[NodeSpec]:
        """Return the nodes by their ids, with their totals."""
        return (_node_spec(record) for record in self._nodes.living())

    def queues(self) -> Iterable[QueueSpec]:
        """Return the queues. The amounts that they deserve depend on which of them have work."""
        total: dict[str, float] = {}
        for record in self._nodes.living():
            for name, amount in record.totals.items():
                total[name] = total.get(name, 0.0) + amount
        return self._queues.specs(self._registry.queues, total)

    def taken_changes(self) -> Mapping[str, Amounts]:
        """Return the amounts that work outside of gangs takes, for the nodes where they have
        changed since the last call.
        """
        return self._outside_work.changes()

    def hypernodes(self) -> tuple[HyperNodeSpec, ...]:
        """Return all domains, with the nodes in each."""
        return self._domains.specs(self._nodes.living())


def _node_spec(record: NodeRecord) -> NodeSpec:
    capacity = dict(batch_amounts(record.totals)) | {"pods": PODS}
    capacity.pop(CARDS, None)
    return NodeSpec(
        name=record.node_id,
        capacity=tuple(sorted(capacity.items())),
        labels=tuple(sorted(record.labels.items())),
        ports=ports_of(record.ports).ranges,
        unschedulable=record.state != ALIVE,
        devices=tuple((memory / _MIB, 0.0) for memory in record.cards.memory),
    )
