"""The command `phalanx devices`: the GPUs of a cluster, their use and their holders."""

from __future__ import annotations

import json as json_module
from collections.abc import Callable, Sequence
from typing import Annotated

import msgspec

from phalanx.cli.common_options import Address, Json
from phalanx.cli.layout import Column
from phalanx.cli.listing import NoHeaders, Output, show
from phalanx.cli.node_names import Ids, find_node, names_of
from phalanx.cli.options import Argument
from phalanx.cli.reach import ask
from phalanx.cli.table import echo
from phalanx.model.readable import amount, size
from phalanx.model.rows.devices import DeviceInfo
from phalanx.model.rows.work import GangInfo
from phalanx.protocol.requests.gangs import ListGangs
from phalanx.protocol.requests.health import ListDevices

_UNKNOWN = "-"


def devices(
    node: Annotated[
        str | None,
        Argument(help="Node: its id, the beginning of its id, or its name. Default: all."),
    ] = None,
    output: Output = "",
    no_headers: NoHeaders = False,
    ids: Ids = False,
    address: Address = None,
    json: Json = False,
) -> None:
    """List GPUs with their health, use, holders and processes."""
    asked = [find_node(address, node)] if node else []
    rows = ask(address, ListDevices(asked))
    if any(row.left < 1 and not row.holders and not row.is_closed for row in rows):
        gangs = ask(address, ListGangs())
        rows = with_gangs(rows, gangs)
    if json:
        data = {"format": "phalanx-devices/1", "devices": [row.as_dict() for row in rows]}
        echo(json_module.dumps(data, indent=1))
        return
    name = names_of(address, [row.node_id for row in rows], ids)
    show(device_columns(name), rows, output, no_headers)


def with_gangs(rows: Sequence[DeviceInfo], gangs: Sequence[GangInfo]) -> list[DeviceInfo]:
    """Return the rows. If a node named no holders of a GPU, the row gets the gangs that hold the
    GPU. Only nodes that read their devices name holders.
    """
    held: dict[tuple[str, int], list[str]] = {}
    for gang in gangs:
        name = gang.job.removeprefix("default/") or gang.name
        for node_id, devices in zip(gang.nodes, gang.devices, strict=False):
            for number in devices.get("GPU", ()):
                holders = held.setdefault((node_id, number), [])
                if name not in holders:
                    holders.append(name)
    return [
        row
        if row.holders
        else msgspec.structs.replace(row, holders=held.get((row.node_id, row.number), []))
        for row in rows
    ]


def device_columns(name: Callable[[str], str]) -> list[Column]:
    """Return the columns of the listing of devices. `name` returns the name under which a node is
    shown.
    """
    return [
        Column("device", lambda row: f"{name(row.node_id)}/gpu{row.number}"),
        Column("model", _model, rank=6),
        Column("state", _state),
        Column("free", lambda row: amount(row.left), rank=2, is_right=True),
        Column("held-by", _holders, rank=1, is_text=True),
        Column("busy", _busy, rank=3, is_right=True),
        Column("memory", _memory, rank=4),
        Column("temp", lambda row: _measured(row.temperature_c, "C"), rank=7, is_right=True),
        Column("power", lambda row: _measured(row.power_w, "W"), rank=8, is_right=True),
        Column("processes", lambda row: "; ".join(row.processes_text) or _UNKNOWN, 9, is_text=True),
        Column("reason", _reason, rank=1, is_text=True),
    ]


def _model(row: DeviceInfo) -> str:
    return " ".join(filter(None, (row.model, row.profile and f"mig-{row.profile}"))) or _UNKNOWN


def _holders(row: DeviceInfo) -> str:
    shared = {one[0] for one in row.sharers}
    alone = [holder for holder in row.holders if holder not in shared]
    mode = [f"shared by {row.mode}: {', '.join(row.sharers_text)}"] if row.sharers else []
    return ", ".join([*alone, *mode]) or _UNKNOWN


def _state(row: DeviceInfo) -> str:
    return "closed" if row.is_closed and row.state == "ok" else row.state


def _busy(row: DeviceInfo) -> str:
    return _UNKNOWN if row.busy is None else f"{100 * row.busy:.0f}%"


def _memory(row: DeviceInfo) -> str:
    if row.memory_used is None or row.memory_total is None:
        return _UNKNOWN
    return f"{size(row.memory_used)}/{size(row.memory_total)}"


def _measured(value: float | None, unit: str) -> str:
    return _UNKNOWN if value is None else f"{value:.0f}{unit}"


def _reason(row: DeviceInfo) -> str:
    parts = (row.reason, row.action and f"needs: {row.action}")
    return "; ".join(one for one in parts if one) or _UNKNOWN
