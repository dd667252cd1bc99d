"""The text of `ray status`, in Ray's layout, because scripts search the output for certain
words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from phalanx.model.lifecycle import DEAD
from phalanx.model.readable import size
from phalanx.model.rows.cluster import NodeInfo, StatusInfo
from phalanx.observe.usage import sums

_LINE = "-" * 63
_BYTES = frozenset({"memory", "object_store_memory"})
_WAITS = ("PENDING", "RESCHEDULING")


def ray_status_text(
    status: StatusInfo, wanting: Iterable[Mapping[str, float]], now: datetime
) -> str:
    """Return the text of `ray status`. `wanting`: the requests of the tasks and actors that wait
    for a node.
    """
    living = [row for row in status.nodes if row.state != DEAD]
    failed = [row for row in status.nodes if row.state == DEAD]
    lines = [
        f"{'=' * 8} Autoscaler status: {now} {'=' * 8}",
        *("Node status", _LINE),
        *("Active:", *_nodes([row for row in living if _is_used(row)], "active")),
        *("Idle:", *_nodes([row for row in living if not _is_used(row)], "idle")),
        *("Pending:", *_pending(status.booting)),
        "Recent failures:",
        *(
            [f" node_{r.node_id}: NodeTerminated (ip: {r.host})" for r in failed]
            or [" (no failures)"]
        ),
        *("", "Resources", _LINE, "Total Usage:"),
        *_usage(living),
        *("", "Total Constraints:", " (no request_resources() constraints)"),
        *("Total Demands:", *(_demands(wanting, status.groups) or [" (no resource demands)"])),
    ]
    return "\n".join(
        [*lines, *(f"health: {trouble}" for trouble in status.troubles + status.lost_nodes)]
    )


def _is_used(row: NodeInfo) -> bool:
    return any(row.available.get(name, 0) < total for name, total in row.total.items())


def _nodes(rows: Sequence[NodeInfo], kind: str) -> list[str]:
    return [f" 1 node_{row.node_id}" for row in rows] or [f" (no {kind} nodes)"]


def _pending(booting: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a line for each pool with booting machines, in the words that Ray uses for nodes
    without an address. Without such pools, a line says that no nodes are pending.
    """
    said = [f" {pool}, {len(names)} launching" for pool, names in booting.items()]
    return said or [" (no pending nodes)"]


def _usage(rows: Sequence[NodeInfo]) -> list[str]:
    return [
        f" {_size(used)}/{_size(total)} {name}" if name in _BYTES else f" {used}/{total} {name}"
        for name, (used, total) in sorted(sums(rows).items())
        if not name.startswith(("node:", "accelerator_type:"))
    ]


def _size(count: float) -> str:
    """Write a size without a space, as Ray does: `0B`, `1.5GiB`."""
    return size(count).replace(" ", "")


def _demands(
    wanting: Iterable[Mapping[str, float]], groups: Iterable[Mapping[str, Any]]
) -> list[str]:
    asked = Counter(str({name: float(of) for name, of in sorted(one.items())}) for one in wanting)
    waiting = Counter(_shape(group) for group in groups if group["state"] in _WAITS)
    return [
        *(f" {what}: {count}+ pending tasks/actors" for what, count in asked.items()),
        *(f" {what}: {count}+ pending placement groups" for what, count in waiting.items()),
    ]


def _shape(group: Mapping[str, Any]) -> str:
    """Return a placement group in Ray's form, such as `{'CPU': 1.0} * 2 (PACK)`."""
    bundles = Counter(str(dict(sorted(of.items()))) for of in group["bundles"].values())
    every = ", ".join(f"{what} * {count}" for what, count in bundles.items())
    return f"{every} ({group['strategy']})"
