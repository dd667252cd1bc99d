"""Text and JSON of `phalanx status` and `phalanx nodes`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from phalanx.cli.table import table
from phalanx.model.lifecycle import ALIVE, DEAD, DRAINING
from phalanx.model.readable import amount, size
from phalanx.model.rows.cluster import NodeInfo, StatusInfo
from phalanx.observe.stranded import stranded_in_all
from phalanx.observe.usage import is_silent, sums

SHORT = 12
"""Digits of a node's id that are shown; `phalanx drain` takes any beginning that is unique."""
_BYTES = ("memory", "object_store_memory")
_OWN_LABEL = "ray.io/node-id"
_COLUMNS = (
    *("NODE", "STATE", "ADDRESS", "CPU", "GPU", "MEMORY", "OBJECTS"),
    *("RUNS", "WAITS", "LABELS", "REASON"),
)
"""Columns of the table of nodes.

Resources are shown as used/total. RUNS counts leases and running members of jobs; WAITS counts
workers that are waited for. A node that has not reported since the head restarted shows `?`.
"""
_AFTER_USE = _COLUMNS.index("RUNS")
Stranded = Mapping[str, Mapping[str, float]]
"""Stranded amounts by node and resource, as in `StatusInfo`."""


def as_data(status: StatusInfo, version: str) -> dict[str, Any]:
    """Return the status as data for JSON, with times in ISO 8601."""
    return {
        "format": "phalanx-status/1",
        "version": version,
        "address": status.address,
        "store": status.store,
        "troubles": status.troubles,
        "nodes": [node_data(row, status) for row in status.nodes],
        "resources": {
            name: {"used": used, "total": total}
            for name, (used, total) in sums(status.nodes).items()
        },
        "actors": status.actors,
        "placement_groups": status.groups,
        "defects": {kind: row.as_dict() for kind, row in status.defects.items()},
        "jobs": [{**job, "start_time": _iso(job.start_time)} for job in status.jobs],
    }


def node_data(row: NodeInfo, status: StatusInfo) -> dict[str, Any]:
    """Return one node as data for JSON."""
    return {**row.as_dict(), "stranded": status.stranded.get(row.node_id, {})}


def status_text(status: StatusInfo, version: str) -> str:
    """Return the status as text."""
    states = Counter(row.state for row in status.nodes)
    silent = sum(is_silent(row) for row in status.nodes)
    amiss = status.troubles + status.lost_nodes
    lines = [
        f"Phalanx {version}, head at {status.address}, store {status.store}",
        *(f"health: {said}" for said in amiss or ["all is well"]),
        f"nodes: {states[ALIVE]} alive, {states[DRAINING]} draining, {states[DEAD]} dead"
        + (f"; {silent} have not reported since the head restarted" if silent else ""),
        "",
        nodes_text([row for row in status.nodes if row.state != DEAD], status.stranded),
        "",
        "used/total:",
    ]
    lost = stranded_in_all(status.stranded)
    for name, (used, total) in sums(status.nodes).items():
        if not name.startswith("node:"):
            more = f"; {_amount(name, lost[name])} stranded" if name in lost else ""
            lines.append(f"  {name} {_used(name, used, total)}{more}")
    actors = {state: count for state, count in status.actors.items() if state != DEAD}
    lines += [
        f"actors: {_counted(actors)}",
        f"placement groups: {_counted(Counter(g['state'] for g in status.groups))}",
        f"drivers: {len(status.jobs)} running",
        f"gangs and jobs: {_counted(status.gangs)}",
        f"defects: {_counted({kind: row.count for kind, row in status.defects.items()})}",
    ]
    lines += [
        f"  {kind}: {row.last} (last, {_iso(row.at)})"
        for kind, row in sorted(status.defects.items())
    ]
    return "\n".join(lines)


def nodes_text(rows: Sequence[NodeInfo], stranded: Stranded) -> str:
    """Return a table with one row per node, and a column STRANDED where anything is stranded."""
    lines = [_node_line(row) for row in rows]
    columns = list(_COLUMNS)
    if stranded:
        columns.insert(_AFTER_USE, "STRANDED")
        for row, line in zip(rows, lines, strict=True):
            amounts = stranded.get(row.node_id, {}).items()
            said = " ".join(f"{_amount(name, value)} {name}" for name, value in amounts)
            line.insert(_AFTER_USE, said or "-")
    return table(columns, lines)


def _node_line(row: NodeInfo) -> list[str]:
    def used(name: str) -> str:
        total = row.total.get(name, 0)
        if row.state == DEAD or not total:
            return "-"
        if silent:
            return f"?/{_amount(name, total)}"
        return _used(name, total - row.available.get(name, 0), total)

    silent = is_silent(row)
    labels = {k: v for k, v in row.labels.items() if k != _OWN_LABEL}
    return [
        f"{row.node_id[:SHORT]} {row.name}".rstrip(),
        row.state.lower(),
        f"{row.host}:{row.port}",
        used("CPU"),
        used("GPU"),
        used("memory"),
        used("object_store_memory"),
        "?" if silent else str(row.running),
        "?" if silent else str(row.waiting),
        ",".join(f"{k}={v}" for k, v in labels.items()) or "-",
        row.reason or "-",
    ]


def _used(name: str, used: float, total: float) -> str:
    return f"{_amount(name, max(used, 0))}/{_amount(name, total)}"


def _amount(name: str, value: float) -> str:
    return (size if name in _BYTES else amount)(value)


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {state}" for state, count in sorted(counts.items())) or "none"


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
