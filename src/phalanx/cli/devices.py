"""The command `phalanx devices`: the GPUs of a cluster, their use and their holders."""

from __future__ import annotations

import json as json_module
from collections.abc import Mapping, Sequence
from typing import Annotated

from phalanx.cli.cluster import Address, Json, find_node
from phalanx.cli.options import Argument
from phalanx.cli.reach import ask
from phalanx.cli.table import echo, table
from phalanx.model.readable import amount, size
from phalanx.model.rows.devices import DeviceInfo
from phalanx.protocol.requests.cluster import GetStatus
from phalanx.protocol.requests.health import ListDevices

_COLUMNS = (
    *("DEVICE", "MODEL", "STATE", "FREE", "HELD BY", "BUSY", "MEMORY", "TEMP", "POWER"),
    *("PROCESSES", "REASON"),
)
_SHORT = 12
_UNKNOWN = "-"


def devices(
    node: Annotated[
        str | None,
        Argument(help="Node: its id, the beginning of its id, or its host name. Default: all."),
    ] = None,
    address: Address = None,
    json: Json = False,
) -> None:
    """List GPUs with their health, use, holders and processes."""
    asked = [find_node(address, node)] if node else []
    rows = ask(address, ListDevices(asked))
    if json:
        data = {"format": "phalanx-devices/1", "devices": [row.as_dict() for row in rows]}
        echo(json_module.dumps(data, indent=1))
        return
    names = {row.node_id: row.hostname for row in ask(address, GetStatus()).nodes}
    echo(devices_text(rows, names))


def devices_text(rows: Sequence[DeviceInfo], names: Mapping[str, str]) -> str:
    """Return a table with one row per device.

    `names`: host names by node id. Where several nodes share a host name, their devices are named
    by the node's id.
    """
    hosts = [names.get(one) for one in dict.fromkeys(row.node_id for row in rows)]
    return table(_COLUMNS, [_line(row, names.get(row.node_id), hosts) for row in rows])


def _line(row: DeviceInfo, host: str | None, hosts: Sequence[str | None]) -> list[str]:
    name = host if host and hosts.count(host) == 1 else row.node_id[:_SHORT]
    state = "closed" if row.is_closed and row.state == "ok" else row.state
    memory = _UNKNOWN
    if row.memory_used is not None and row.memory_total is not None:
        memory = f"{size(row.memory_used)}/{size(row.memory_total)}"
    return [
        f"{name}/gpu{row.number}",
        row.model or _UNKNOWN,
        state,
        amount(row.left),
        ", ".join(row.holders) or _UNKNOWN,
        _UNKNOWN if row.busy is None else f"{100 * row.busy:.0f}%",
        memory,
        _UNKNOWN if row.temperature_c is None else f"{row.temperature_c:.0f}C",
        _UNKNOWN if row.power_w is None else f"{row.power_w:.0f}W",
        "; ".join(row.processes_text) or _UNKNOWN,
        "; ".join(one for one in (row.reason, row.action and f"needs: {row.action}") if one)
        or _UNKNOWN,
    ]
