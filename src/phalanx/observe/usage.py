"""Sums of the total and used amounts of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from phalanx.model.lifecycle import DEAD
from phalanx.model.rows.cluster import NodeInfo

MAIN = ("GPU", "CPU", "memory", "object_store_memory")
"""The resources in a summary, in this order."""


def is_silent(row: NodeInfo) -> bool:
    """Whether the head knows the node only from its store, because it has not reported.

    The row of a node that has reported names all its resources.
    """
    return row.state != DEAD and not row.available and bool(row.total)


def sums(rows: Iterable[NodeInfo]) -> dict[str, tuple[float, float]]:
    """Return (used, total) of each resource, summed over the nodes that are not dead and have
    reported.
    """
    return added((row.total, row.available) for row in rows if row.state != DEAD)


def added(
    nodes: Iterable[tuple[Mapping[str, float], Mapping[str, float]]],
) -> dict[str, tuple[float, float]]:
    """Return (used, total) of each resource, summed over living nodes. `nodes`: the (total,
    available) amounts of each.

    Nodes that have not reported are left out.
    """
    found: dict[str, list[float]] = {}
    for whole, available in nodes:
        if not available and whole:
            continue
        for name, total in whole.items():
            sums_of = found.setdefault(name, [0.0, 0.0])
            sums_of[0] += max(total - available.get(name, 0), 0)
            sums_of[1] += total
    return {name: (round(used, 4), round(total, 4)) for name, (used, total) in found.items()}
