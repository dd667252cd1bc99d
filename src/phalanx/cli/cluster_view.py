"""Text and JSON of `phalanx status` and `phalanx nodes`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from phalanx.cli.layout import Column
from phalanx.cli.node_names import NodeNames
from phalanx.cli.table import in_lines
from phalanx.cli.times import moment
from phalanx.model.command_groups import NONE
from phalanx.model.lifecycle import ALIVE, DEAD, DRAINING
from phalanx.model.readable import amount, size
from phalanx.model.rows.cluster import MINE, NodeInfo, StatusInfo, current_nodes, given_labels
from phalanx.observe.stranded import stranded_in_all
from phalanx.observe.usage import MAIN, is_silent, sums

_BYTES = ("memory", "object_store_memory")
Stranded = Mapping[str, Mapping[str, float]]
"""The stranded amounts by node and resource, as in `StatusInfo`."""
InUse = Mapping[str, Mapping[str, float]]
"""The amounts in use on the machines of nodes, as in the answer to `ListNodesInUse`."""


def as_data(status: StatusInfo, version: str) -> dict[str, Any]:
    """Return the status as data for JSON, with times in ISO 8601."""
    return {
        "format": "phalanx-status/1",
        "version": version,
        "address": status.address,
        "store": status.store,
        "standbys": status.standbys,
        "booting": status.booting,
        "mode": status.mode,
        "troubles": status.troubles,
        "nodes": [node_data(row, status) for row in status.nodes],
        "resources": {
            name: {"used": used, "total": total}
            for name, (used, total) in sums(status.nodes).items()
        },
        "actors": status.actors,
        "placement_groups": status.groups,
        "defects": {kind: row.as_dict() for kind, row in status.defects.items()},
        "job_states": status.job_states,
        "jobs": [{**job, "start_time": _iso(job.start_time)} for job in status.jobs],
    }


def node_data(row: NodeInfo, status: StatusInfo) -> dict[str, Any]:
    """Return one node as data for JSON."""
    return {**row.as_dict(), "stranded": status.stranded.get(row.node_id, {})}


def listed_node_data(row: NodeInfo, status: StatusInfo, in_use: InUse) -> dict[str, Any]:
    """Return one node of the listing of nodes as data for JSON."""
    return {**node_data(row, status), "used": in_use.get(row.node_id, {})}


def status_text(status: StatusInfo, version: str) -> str:
    """Return the status as text: the totals of the cluster, and all problems."""
    states = Counter(row.state for row in current_nodes(status.nodes))
    silent = sum(is_silent(row) for row in status.nodes)
    amiss = status.troubles + status.lost_nodes
    lines = [
        f"Phalanx {version}, head at {status.address}, store {status.store}"
        + (f", standby at {', '.join(status.standbys)}" if status.standbys else "")
        + (f", mode {status.mode}" if status.mode != MINE else ""),
        *(f"health: {said}" for said in amiss or ["all is well"]),
        f"nodes: {states[ALIVE]} alive, {states[DRAINING]} draining, {states[DEAD]} dead"
        + (f"; {silent} have not reported since the head restarted" if silent else ""),
        *(
            f"  pool {pool}: {', '.join(names)} {'boots' if len(names) == 1 else 'boot'}"
            for pool, names in status.booting.items()
        ),
        *_unwell(status.nodes),
        *_groups_lines(status.nodes),
        "",
        "allocated/total:",
    ]
    lost = stranded_in_all(status.stranded)
    for name, (used, total) in sums(status.nodes).items():
        if not name.startswith("node:"):
            more = f"; {_amount(name, lost[name])} stranded" if name in lost else ""
            lines.append(f"  {name} {_used(name, used, total)}{more}")
    actors = {state: count for state, count in status.actors.items() if state != DEAD}
    lines += [
        f"actors: {_counted(actors)}",
        f"placement groups: {_counted(Counter(g['state'] for g in _of_programs(status.groups)))}",
        f"drivers: {len(status.jobs)} running",
        f"jobs: {_counted(status.job_states)}",
        f"gangs of programs and jobs: {_counted(status.gangs)}",
        f"defects: {_counted({kind: row.count for kind, row in status.defects.items()})}",
    ]
    lines += [
        f"  {kind}: {row.last} (last, {moment(row.at)})"
        for kind, row in sorted(status.defects.items())
    ]
    return in_lines("\n".join(lines))


def _of_programs(groups: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the placement groups that are not the bundles of a gang."""
    return [group for group in groups if "scheduling_attempt" in group.get("stats", ())]


def _unwell(rows: Sequence[NodeInfo]) -> list[str]:
    """Return a line for each living node that takes no work, or that has a bad device or a failed
    check.
    """
    name = NodeNames(rows)
    lines = []
    for row in rows:
        if row.state == DEAD:
            continue
        said = [row.reason] if row.reason else []
        said += [f"GPU {number} is {state}: {why}" for number, state, _, why in row.unwell]
        said += [row.trouble] if row.trouble else []
        said += [f"check {check} is {state}" for check, state, _ in row.checks]
        if said or row.state == DRAINING:
            lines.append(f"  {name(row.node_id)} {row.state.lower()}: {'; '.join(said) or '-'}")
    return lines


def _groups_lines(nodes: Sequence[NodeInfo]) -> list[str]:
    """Return a line for each method by which living nodes find all processes of a job's command:
    control groups of one kind, or no control groups.
    """
    ways = Counter(row.command_groups for row in nodes if row.state != DEAD and row.command_groups)
    return [
        f"commands are held by control groups on {_nodes(count)}: {way}"
        if not way.startswith(NONE)
        else f"commands are held without control groups on {_nodes(count)}: {way}"
        for way, count in sorted(ways.items())
    ]


def _nodes(count: int) -> str:
    return f"{count} node" if count == 1 else f"{count} nodes"


def node_columns(
    rows: Sequence[NodeInfo], stranded: Stranded, in_use: InUse, with_ids: bool
) -> list[Column]:
    """Return the columns of the listing of these nodes.

    Resources are shown as allocated/total. USED is what the node's machine used lately. RUNS counts
    leases and running members of jobs; WAITS counts workers for which processes wait. A node that
    has not reported since the head restarted shows `?`.
    """
    name = NodeNames(rows, with_ids)

    def lost(row: NodeInfo) -> str:
        amounts = stranded.get(row.node_id, {}).items()
        return " ".join(f"{_amount(what, value)} {what}" for what, value in amounts) or "-"

    def used(row: NodeInfo) -> str:
        known = in_use.get(row.node_id, {})
        amounts = [(what, known[what]) for what in MAIN if what in known and row.total.get(what)]
        texts = (
            size(value) if what == "memory" else f"{amount(value)} {what}"
            for what, value in amounts
        )
        return ", ".join(texts) or "-"

    return [
        Column("node", lambda row: name(row.node_id)),
        Column("id", lambda row: row.node_id, is_usual=False),
        Column("state", lambda row: row.state.lower()),
        Column("address", lambda row: f"{row.host}:{row.port}", rank=8, is_usual=False),
        Column("cpu", partial(_use, "CPU"), rank=1),
        Column("gpu", partial(_use, "GPU"), rank=1),
        Column("memory", partial(_use, "memory"), rank=4),
        Column("objects", partial(_use, "object_store_memory"), rank=6),
        Column("used", used, rank=5, is_usual=bool(in_use)),
        Column("stranded", lost, rank=5, is_usual=bool(stranded)),
        Column("runs", lambda row: "?" if is_silent(row) else str(row.running), 2, is_right=True),
        Column("waits", lambda row: "?" if is_silent(row) else str(row.waiting), 3, is_right=True),
        Column("labels", _labels, rank=7, is_text=True),
        Column("reason", lambda row: row.reason or "-", rank=2, is_text=True),
    ]


def _use(name: str, row: NodeInfo) -> str:
    total = row.total.get(name, 0)
    if row.state == DEAD or not total:
        return "-"
    if is_silent(row):
        return f"?/{_amount(name, total)}"
    return _used(name, total - row.available.get(name, 0), total)


def _labels(row: NodeInfo) -> str:
    return ",".join(f"{k}={v}" for k, v in given_labels(row.labels).items()) or "-"


def _used(name: str, used: float, total: float) -> str:
    return f"{_amount(name, max(used, 0))}/{_amount(name, total)}"


def _amount(name: str, value: float) -> str:
    return (size if name in _BYTES else amount)(value)


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {state}" for state, count in sorted(counts.items())) or "none"


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
