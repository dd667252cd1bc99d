"""`sinfo`: queues as partitions, and the nodes, which all queues share."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from phalanx.adapters.slurm import formats
from phalanx.adapters.slurm.commands.usage import address, read, refuse
from phalanx.adapters.slurm.options import Option, OptionError, flag
from phalanx.adapters.slurm.states import elapsed
from phalanx.cli.reach import ask
from phalanx.cli.table import say
from phalanx.model.rows.cluster import NodeInfo
from phalanx.model.rows.work import QueueInfo
from phalanx.protocol.requests.cluster import GetStatus
from phalanx.protocol.requests.queues import ListQueues

SINFO = (
    flag("all", "a"),
    flag("dead", "d"),
    flag("exact", "e", note="nodes are put together by what they have, exactly"),
    Option("format", "o"),
    Option("Format", "O", refused="use --format with letters"),
    flag("help", "h"),
    flag("json"),
    flag("long", "l"),
    flag("list-reasons", "R"),
    flag("Node", "N"),
    flag("noheader", note="-h, too"),
    Option("nodes", "n", refused="nodes have no names to choose by"),
    Option("partition", "p"),
    flag("responding", "r"),
    flag("summarize", "s"),
    Option("states", "t"),
    flag("version", "V"),
    flag("yaml", refused="use --json"),
)
_LETTERS = {
    "P": ("partition", "PARTITION"), "R": ("queue", "PARTITION"), "a": ("open", "AVAIL"),
    "l": ("limit", "TIMELIMIT"), "D": ("count", "NODES"), "t": ("short", "STATE"),
    "T": ("state", "STATE"), "N": ("list", "NODELIST"), "c": ("cpus", "CPUS"),
    "C": ("used", "CPUS(A/I/O/T)"), "m": ("memory", "MEMORY"), "e": ("free", "FREE_MEM"),
    "G": ("gres", "GRES"), "E": ("reason", "REASON"), "n": ("hosts", "HOSTNAMES"),
    "F": ("counts", "NODES(A/I/O/T)"), "o": ("list", "NODE_ADDR"),
}  # fmt: skip
_USUAL = "%.9P %.5a %.10l %.6D %.6t %N"
_BY_NODE = "%N %.6D %.9P %.6t"
_LONG = "%.9P %.5a %.10l %.6D %.11T %.6c %.8m %N"
_BY_NODE_LONG = "%N %.6D %.9P %.11T %.6c %.8m %E"
_SUMMED = "%.9P %.5a %.10l %.16F %N"
_REASONS = "%.40E %.6t %N"
_STATES = {"idle": "idle", "mixed": "mix", "allocated": "alloc", "down": "down", "draining": "drng",
           "drained": "drain"}  # fmt: skip
_MIB = 1 << 20


def sinfo(words: Sequence[str]) -> None:
    """List queues and nodes."""
    asked, rest = read("sinfo", SINFO, ["--noheader" if word == "-h" else word for word in words])
    if rest:
        refuse("sinfo", f"{rest[0]}: options alone are taken")
    try:
        _sinfo(asked)
    except OptionError as error:
        refuse("sinfo", str(error))


def state_of(node: NodeInfo) -> str:
    """Slurm's state of a node."""
    total, free = node.total.get("CPU", 0.0), node.available.get("CPU", 0.0)
    if node.state == "DEAD":
        return "down"
    if node.state == "DRAINING":
        return "draining" if free < total else "drained"
    if free >= total:
        return "idle"
    return "mixed" if free > 0 else "allocated"


def _sinfo(asked: Mapping[str, str]) -> None:
    usual = _USUAL
    usual = _LONG if "long" in asked else usual
    by_node = _BY_NODE_LONG if "long" in asked else _BY_NODE
    for option, format in (("Node", by_node), ("summarize", _SUMMED), ("list-reasons", _REASONS)):
        usual = format if option in asked else usual
    columns = formats.letters(asked.get("format", usual), _LETTERS, "sinfo")
    queues = [row for row in ask(address(), ListQueues()) if row.name != "root"]
    wanted = set(filter(None, asked.get("partition", "").split(",")))
    queues = [row for row in queues if not wanted or row.name in wanted]
    nodes = [node for node in ask(address(), GetStatus()).nodes if _is_wanted(asked, node)]
    if "json" in asked:
        say(json.dumps({"sinfo": [_json(q, n) for q in queues for n in nodes], "errors": []}))
        return
    found = {column.field for column in columns}
    rows = [row for queue in queues for row in _rows(queue, nodes, found, "Node" in asked)]
    for line in formats.listed(columns, rows, "noheader" not in asked):
        say(line)


def _is_wanted(asked: Mapping[str, str], node: NodeInfo) -> bool:
    state = state_of(node)
    if "dead" in asked and state != "down":
        return False
    if "responding" in asked and state == "down":
        return False
    if "list-reasons" in asked and not node.reason:
        return False
    states = [one.lower() for one in asked.get("states", "").split(",") if one]
    for one in states:
        if one not in _STATES and one not in _STATES.values():
            raise OptionError(f"--states={one}: there are {', '.join(_STATES)}")
    return not states or state in states or _STATES[state] in states


def _rows(
    queue: QueueInfo, nodes: Sequence[NodeInfo], fields: set[str], by_node: bool
) -> list[dict[str, str]]:
    """Nodes of a queue that read the same are one row."""
    groups: dict[tuple[str, ...], list[NodeInfo]] = {}
    for node in nodes:
        row = _row(queue, [node])
        apart = fields & {"short", "state", "cpus", "memory", "gres", "reason"}
        key = (node.node_id,) if by_node else tuple(row[field] for field in sorted(apart))
        groups.setdefault(key, []).append(node)
    return [_row(queue, group) for group in groups.values()] or [_row(queue, [])]


def _row(queue: QueueInfo, nodes: Sequence[NodeInfo]) -> dict[str, str]:
    states = [state_of(node) for node in nodes]
    state = states[0] if states else "n/a"
    total = sum(node.total.get("CPU", 0.0) for node in nodes)
    idle = sum(node.available.get("CPU", 0.0) for node in nodes)
    other = sum(states.count(one) for one in ("down", "drained", "draining"))
    busy = sum(states.count(one) for one in ("allocated", "mixed"))
    first = nodes[0] if nodes else None
    gpus = first.total.get("GPU", 0.0) if first else 0.0
    is_usual = "*" if queue.name == "default" else ""
    return {
        "partition": queue.name + is_usual,
        "queue": queue.name,
        "open": "up" if queue.state == "Open" else "down",
        "limit": elapsed(queue.max_time_s, "infinite"),
        "count": str(len(nodes)),
        "short": _STATES.get(state, state),
        "state": state,
        "list": ",".join(dict.fromkeys(node.host for node in nodes)),
        "hosts": ",".join(dict.fromkeys(node.hostname for node in nodes)),
        "cpus": f"{first.total.get('CPU', 0):g}" if first else "0",
        "used": f"{total - idle:g}/{idle:g}/0/{total:g}",
        "counts": f"{busy}/{states.count('idle')}/{other}/{len(nodes)}",
        "memory": str(int(first.total.get("memory", 0)) // _MIB) if first else "0",
        "free": str(int(first.available.get("memory", 0)) // _MIB) if first else "0",
        "gres": f"gpu:{gpus:g}" if gpus else "(null)",
        "reason": (first.reason if first else "") or "none",
    }


def _json(queue: QueueInfo, node: NodeInfo) -> dict[str, object]:
    row = _row(queue, [node])
    total, idle = node.total.get("CPU", 0.0), node.available.get("CPU", 0.0)
    return {
        "partition": {"name": queue.name},
        "node": {"state": [row["state"].upper()]},
        "nodes": {"nodes": [node.host], "total": 1},
        "cpus": {"allocated": total - idle, "idle": idle, "total": total},
        "gres": {"total": row["gres"]},
        "reason": {"description": node.reason},
    }
