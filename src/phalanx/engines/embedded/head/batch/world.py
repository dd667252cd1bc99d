"""The cluster's nodes as the batch scheduler reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from phalanx.batch.specs import Amounts, HyperNodeSpec, NodeSpec
from phalanx.control.nodes import NodeRecord
from phalanx.manifests.quantities import batch_amounts
from phalanx.model.jobs.topology import NetworkTopology
from phalanx.model.lifecycle import ALIVE
from phalanx.protocol.cluster_messages import ViewRow
from phalanx.resources.quantities import from_units
from phalanx.resources.sets import EMPTY, ResourceSet

PODS = 1e6
"""No node limits how many members it has."""
RACK = "rack"
"""The label of nodes that names their rack."""
NODE_TIER, RACK_TIER = 1, 2
TOPOLOGIES = {
    "": None,
    "node": NetworkTopology(highest_tier=NODE_TIER),
    "nvlink": NetworkTopology(highest_tier=NODE_TIER),
    "rack": NetworkTopology(highest_tier=RACK_TIER),
}
"""How close a gang is: on one node (whose devices are wired together), or in one rack."""


def topology_of(name: str) -> NetworkTopology | None:
    """What a word for closeness means. Raises ValueError with the words that there are."""
    if name not in TOPOLOGIES:
        known = ", ".join(repr(t) for t in TOPOLOGIES if t)
        raise ValueError(f"topology is one of {known}, not {name!r}")
    return TOPOLOGIES[name]


def node_specs(records: Iterable[NodeRecord]) -> Iterator[NodeSpec]:
    """Nodes by their ids, with all that they have."""
    for record in records:
        capacity = dict(batch_amounts(record.totals)) | {"pods": PODS}
        yield NodeSpec(
            name=record.node_id,
            capacity=tuple(sorted(capacity.items())),
            labels=tuple(sorted(record.labels.items())),
            unschedulable=record.state != ALIVE,
        )


def hypernodes(records: Iterable[NodeRecord]) -> Iterator[HyperNodeSpec]:
    """Every node as a domain of its own, and every rack as one of nodes."""
    racks: dict[str, list[str]] = {}
    for record in records:
        domain = f"node/{record.node_id}"
        yield HyperNodeSpec(name=domain, tier=NODE_TIER, tier_name="node", nodes=(record.node_id,))
        if RACK in record.labels:
            racks.setdefault(record.labels[RACK], []).append(domain)
    for rack, members in sorted(racks.items()):
        yield HyperNodeSpec(
            name=f"rack/{rack}", tier=RACK_TIER, tier_name="rack", children=tuple(members)
        )


def taken_by_others(rows: Iterable[ViewRow], held: Mapping[str, ResourceSet]) -> dict[str, Amounts]:
    """What of each node is not free, and not held by gangs either.

    Nodes report late: what a gang has just got may not be taken yet by their account.
    """
    taken = {}
    for row in rows:
        total = ResourceSet.from_mapping(row.total)
        free = ResourceSet.from_mapping(row.available)
        mine = held.get(row.node_id, EMPTY)
        others = {
            name: from_units(units)
            for name in total
            if (units := total[name] - free.get(name, 0) - mine.get(name, 0)) > 0
        }
        taken[row.node_id] = batch_amounts(others)
    return taken
