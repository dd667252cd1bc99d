"""Converts Ray's data about nodes for the head: the resources that gangs can request, and their
availability. Ray's special resources for a single node or placement group are left out. The
resource for devices is called GPU, even if dedicated nodes have another name for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from phalanx.protocol.report_messages import NodeReport

GPU = "GPU"
_NOT_RESERVED = "object_store_memory"


class RayNode(msgspec.Struct, frozen=True, kw_only=True):
    """A living node of Ray."""

    node_id: str
    host: str
    hostname: str
    totals: dict[str, float]
    labels: dict[str, str]


class Naming:
    """Translates between Ray's and Phalanx's names of resources."""

    def __init__(self, gpu_resource: str) -> None:
        self._gpu = gpu_resource

    def ours(self, amounts: Mapping[str, float]) -> dict[str, float]:
        """Return the amounts that a gang could request, under Phalanx's names."""
        return {
            GPU if name == self._gpu else name: amount
            for name, amount in amounts.items()
            if not (name == GPU != self._gpu or name == _NOT_RESERVED or ":" in name)
            and "_group_" not in name
        }

    def rays(self, amounts: Mapping[str, float]) -> dict[str, float]:
        """Return the nonzero amounts of a bundle under Ray's names."""
        return {(self._gpu if n == GPU else n): amount for n, amount in amounts.items() if amount}

    def living(self, rows: list[dict[str, Any]]) -> dict[str, RayNode]:
        """Return the living nodes among Ray's rows, by id."""
        return {
            row["NodeID"]: RayNode(
                node_id=row["NodeID"],
                host=row["NodeManagerAddress"],
                hostname=row["NodeManagerHostname"],
                totals=self.ours(row["Resources"]),
                labels=dict(row.get("Labels") or {}),
            )
            for row in rows
            if row["Alive"]
        }


def merged(report: NodeReport, free: Mapping[str, float] | None) -> NodeReport:
    """Merge an agent's report with the amounts available in Ray, so that amounts held by other work
    count as taken.
    """
    if free is None:
        return report
    total = report.total or report.available
    return msgspec.structs.replace(
        report, available={name: min(free.get(name, 0.0), total[name]) for name in total}
    )
