"""What nodes hold and give, added up."""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.model.lifecycle import DEAD
from phalanx.model.rows.cluster import NodeInfo


def is_silent(row: NodeInfo) -> bool:
    """Whether the head knows the node from its store only. What has reported names all it has."""
    return row.state != DEAD and not row.available and bool(row.total)


def sums(rows: Iterable[NodeInfo]) -> dict[str, tuple[float, float]]:
    """(used, total) of each resource over the nodes that are not dead and have reported."""
    found: dict[str, tuple[float, float]] = {}
    for row in rows:
        if row.state == DEAD or is_silent(row):
            continue
        for name, total in row.total.items():
            used, whole = found.get(name, (0.0, 0.0))
            taken = max(total - row.available.get(name, 0), 0)
            found[name] = (round(used + taken, 4), round(whole + total, 4))
    return found
