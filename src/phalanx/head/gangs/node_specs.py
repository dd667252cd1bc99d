"""The cluster's nodes as the batch scheduler reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from phalanx.batch.specs import Amounts, NodeSpec
from phalanx.head.nodes import NodeRecord
from phalanx.manifests.quantities import batch_amounts
from phalanx.model.lifecycle import ALIVE
from phalanx.protocol.cluster_messages import ViewRow
from phalanx.resources.quantities import from_units
from phalanx.resources.sets import EMPTY, ResourceSet

PODS = 1e6
"""No node limits how many members it has."""


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
