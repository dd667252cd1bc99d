"""The command `sinfo`: queues as partitions, and the nodes, which all queues share."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence

import msgspec

from phalanx.adapters.slurm import formats
from phalanx.adapters.slurm.commands.asked_nodes import hosts_named
from phalanx.adapters.slurm.commands.hostlists import name_of, names_of
from phalanx.adapters.slurm.commands.usage import (
    SLURM_VERSION,
    address,
    complain,
    read,
    refuse,
    words_of,
)
from phalanx.adapters.slurm.marks import check_words
from phalanx.adapters.slurm.node_columns import SINFO_LETTERS, SINFO_NAMES
from phalanx.adapters.slurm.options import Option, OptionError, flag, from_environment, ignored
from phalanx.adapters.slurm.preemption import preempt_mode
from phalanx.adapters.slurm.sorting import sorted_rows
from phalanx.adapters.slurm.states import elapsed
from phalanx.cli.reach import ask
from phalanx.cli.table import say
from phalanx.cli.times import clock
from phalanx.model.rows.cluster import NodeInfo, current_nodes
from phalanx.model.rows.work import QueueInfo
from phalanx.protocol.requests.cluster import GetStatus
from phalanx.protocol.requests.gangs import GetRules
from phalanx.protocol.requests.queues import ListQueues

SINFO = (
    flag("all", "a"),
    Option("clusters", "M", note="only the value phalanx is accepted: there is one cluster"),
    flag("dead", "d"),
    flag("exact", "e", note="nodes share a row only if they have the same amounts of resources"),
    ignored("federation", note="there is one cluster", takes_value=False),
    Option("format", "o"),
    Option("Format", "O"),
    flag("help"),
    ignored("hide", note="no partition is hidden", takes_value=False),
    Option("iterate", "i"),
    flag("json"),
    flag("long", "l"),
    flag("list-reasons", "R"),
    ignored("local", note="there is one cluster", takes_value=False),
    ignored("noconvert", note="sizes are always in MiB", takes_value=False),
    flag("Node", "N"),
    flag("noheader", "h"),
    Option("nodes", "n"),
    Option("partition", "p"),
    flag("reservation", "T", refused="use `scontrol show reservation`"),
    flag("responding", "r"),
    Option("sort", "S", note="letters of --format, such as #P,-t (- for descending order)"),
    flag("summarize", "s"),
    Option("states", "t"),
    flag("usage"),
    ignored("verbose", "v", "errors are always printed", takes_value=False),
    flag("version", "V"),
    flag("yaml", refused="use --json"),
)
_USUAL = "%9P %.5a %.10l %.6D %.6t %N"
_BY_NODE = "%9N %.6D %.9P %6t"
_LONG = "%9P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %N"
_BY_NODE_LONG = "%9N %.6D %.9P %.11T %4c %.8z %.6m %.8d %.6w %.8f %20E"
_SUMMED = "%9P %.5a %.10l %.16F %N"
_REASONS = "%20E %9u %19H %N"
_STATES = {"idle": "idle", "mixed": "mix", "allocated": "alloc", "down": "down", "draining": "drng",
           "drained": "drain"}  # fmt: skip
_BOTH = {"drain": ("draining", "drained")}
"""The words of `--states` that stand for several states."""
_NEVER = (
    "blocked", "cloud", "comp", "completing", "fail", "failing", "fail*", "futr", "future",
    "inval", "maint", "no_respond", "npc", "perfctrs", "planned", "plnd", "power_down",
    "power_up", "powered_down", "powering_down", "powering_up", "reboot", "reserved", "resv",
    "unk", "unknown",
)  # fmt: skip
"""The states of Slurm that no node of Phalanx has. A listing of nodes in such a state is empty."""
_CLOSED = ("down", "drained", "draining")
"""The states of nodes that take no work."""
_ALIKE = frozenset({"short", "state", "cpus", "memory", "gres", "reason", "features", "sct"})
"""If one of these fields is shown, nodes with different values get different rows."""
_MIB = 1 << 20


def sinfo(words: Sequence[str]) -> None:
    """List queues and nodes."""
    asked, rest = read("sinfo", SINFO, words, intermixed=True)
    if rest:
        refuse("sinfo", f"{rest[0]}: only options are taken")
    asked = from_environment("SINFO_", SINFO, os.environ) | asked
    try:
        while True:
            _sinfo(asked)
            if "iterate" not in asked:
                return
            time.sleep(max(float(asked["iterate"]), 1.0))
    except ValueError as error:
        refuse("sinfo", str(error))


def state_of(node: NodeInfo) -> str:
    """Return Slurm's state of a node."""
    total, free = node.total.get("CPU", 0.0), node.available.get("CPU", 0.0)
    if node.state == "DEAD":
        return "down"
    if node.state == "DRAINING":
        return "draining" if free < total else "drained"
    if free >= total:
        return "idle"
    return "mixed" if free > 0 else "allocated"


def _columns(asked: Mapping[str, str]) -> list[formats.Column]:
    usual = _LONG if "long" in asked else _USUAL
    by_node = _BY_NODE_LONG if "long" in asked else _BY_NODE
    for option, format in (("Node", by_node), ("summarize", _SUMMED), ("list-reasons", _REASONS)):
        usual = format if option in asked else usual
    if "Format" in asked and asked["Format"].lower() != "all":
        columns, complaints = formats.names(asked["Format"], SINFO_NAMES)
    else:
        format = "%all" if "Format" in asked else asked.get("format", usual)
        columns, complaints = formats.letters(format, SINFO_LETTERS, "node")
    complain("sinfo", complaints)
    return columns


def _sinfo(asked: Mapping[str, str]) -> None:
    check_words({name: asked[name] for name in ("clusters",) if name in asked})
    columns = _columns(asked)
    queues = [row for row in ask(address(), ListQueues()) if row.name != "root"]
    wanted = words_of(asked, "partition")
    queues = [row for row in queues if not wanted or row.name in wanted]
    present = current_nodes(ask(address(), GetStatus()).nodes)
    nodes = [node for node in present if _is_wanted(asked, node)]
    if "nodes" in asked:
        named = hosts_named("sinfo", asked["nodes"])
        nodes = [node for node in nodes if name_of(node) in named]
    if "json" in asked:
        say(json.dumps({"sinfo": [_json(q, n) for q in queues for n in nodes], "errors": []}))
        return
    found = {column.field for column in columns}
    rows = [row for queue in queues for row in _rows(queue, nodes, found, "Node" in asked)]
    if "preempt" in found:
        mode = preempt_mode(ask(address(), GetRules()).actions)
        rows = [{**row, "preempt": mode} for row in rows]
    if "list-reasons" in asked and not nodes:
        rows = []
    if "sort" in asked:
        rows = sorted_rows(rows, asked["sort"].replace("#", ""), SINFO_LETTERS)
    if asked.keys() & {"long", "iterate"} and "noheader" not in asked:
        say(time.strftime("%a %b %d %H:%M:%S %Y"))
    if "Node" in asked and not asked.keys() & {"format", "Format"}:
        columns = _wide_enough(columns, rows)
    for line in formats.listed(columns, rows, "noheader" not in asked):
        say(line)


def _wide_enough(
    columns: Sequence[formats.Column], rows: Sequence[Mapping[str, str]]
) -> list[formats.Column]:
    """Return the default columns, widened so that no name of a node or partition is cut, because
    programs read these names.
    """
    return [
        msgspec.structs.replace(one, width=max([one.width, *(len(row[one.field]) for row in rows)]))
        if one.field in ("list", "partition")
        else one
        for one in columns
    ]


def _is_wanted(asked: Mapping[str, str], node: NodeInfo) -> bool:
    state = state_of(node)
    if "dead" in asked and state != "down":
        return False
    if "responding" in asked and state == "down":
        return False
    if "list-reasons" in asked and not node.reason:
        return False
    words = [one.lower() for one in asked.get("states", "").split(",") if one]
    for one in words:
        if one not in {*_STATES, *_STATES.values(), *_BOTH, *_NEVER, "all"}:
            raise OptionError(f"--states={one}: the states are {', '.join(_STATES)}")
    wanted = {state for one in words for state in _BOTH.get(one, (one,))}
    return not words or bool({state, _STATES[state], "all"} & wanted)


def _rows(
    queue: QueueInfo, nodes: Sequence[NodeInfo], fields: set[str], by_node: bool
) -> list[dict[str, str]]:
    """Return the rows of a queue. Nodes with equal fields share a row."""
    groups: dict[tuple[str, ...], list[NodeInfo]] = {}
    for node in nodes:
        row = _row(queue, [node])
        apart = fields & _ALIKE
        key = (node.node_id,) if by_node else tuple(row[field] for field in sorted(apart))
        groups.setdefault(key, []).append(node)
    return [_row(queue, group) for group in groups.values()] or [_row(queue, [])]


def _row(queue: QueueInfo, nodes: Sequence[NodeInfo]) -> dict[str, str]:
    states = [state_of(node) for node in nodes]
    state = states[0] if states else "n/a"
    cpus = _cpu_counts(nodes)
    other = sum(states.count(one) for one in _CLOSED)
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
        "list": names_of(nodes),
        "hosts": ",".join(dict.fromkeys(node.hostname for node in nodes)),
        "cpus": f"{first.total.get('CPU', 0):g}" if first else "0",
        "used": "/".join(f"{count:g}" for count in cpus),
        "counts": f"{busy}/{states.count('idle')}/{other}/{len(nodes)}",
        "counts_short": f"{busy}/{states.count('idle')}",
        "memory": str(int(first.total.get("memory", 0)) // _MIB) if first else "0",
        "allocated": str(int(held(first, "memory")) // _MIB) if first else "0",
        "features": _features(first) if first else "",
        "sct": f"{first.total.get('CPU', 0):g}:1:1" if first else "",
        "version": SLURM_VERSION,
        "port": str(first.port) if first else "0",
        "default_limit": elapsed(queue.default_time_s, "n/a"),
        "gres_used": f"gpu:{int(held(first, 'GPU'))}" if first and gpus else "",
        "reason_user": first.holds[0][2] if first and first.holds else "",
        "reason_time": _since(first) if first else "",
        "free": str(int(first.available.get("memory", 0)) // _MIB) if first else "0",
        "gres": f"gpu:{gpus:g}" if gpus else "(null)",
        "reason": (first.reason if first else "") or "none",
    }


def _cpu_counts(nodes: Sequence[NodeInfo]) -> tuple[float, float, float, float]:
    """Return the numbers of CPUs that are allocated, idle, in another state, and in all. The CPUs
    of a node that takes no work are not idle.
    """
    total = sum(node.total.get("CPU", 0.0) for node in nodes)
    used = sum(held(node, "CPU") for node in nodes)
    takes_work = (node for node in nodes if state_of(node) not in _CLOSED)
    idle = sum(node.available.get("CPU", 0.0) for node in takes_work)
    return used, idle, total - used - idle, total


def _since(node: NodeInfo) -> str:
    """Return when the node's reason began; "" if this is not known."""
    since = node.ended or (node.holds[0][3] if node.holds else 0.0)
    return clock(since) if since else ""


def held(node: NodeInfo, resource: str) -> float:
    """Return the amount of a resource that work holds on a node. A dead node holds nothing."""
    if node.state == "DEAD":
        return 0.0
    return node.total.get(resource, 0.0) - node.available.get(resource, 0.0)


def _features(node: NodeInfo) -> str:
    """Return a node's labels, without those that every node has, in `--constraint`'s form."""
    own = sorted((name, value) for name, value in node.labels.items() if "/" not in name)
    return ",".join(f"{name}={value}" if value else name for name, value in own)


def _json(queue: QueueInfo, node: NodeInfo) -> dict[str, object]:
    row = _row(queue, [node])
    used, idle, _, total = _cpu_counts([node])
    return {
        "partition": {"name": queue.name},
        "node": {"state": [row["state"].upper()]},
        "nodes": {"nodes": [name_of(node)], "total": 1},
        "cpus": {"allocated": used, "idle": idle, "total": total},
        "gres": {"total": row["gres"]},
        "reason": {"description": node.reason},
    }
