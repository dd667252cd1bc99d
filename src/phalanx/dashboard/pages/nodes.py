"""The data of the page Nodes, and of the page of one node with its devices and their holders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from phalanx.dashboard.pages.device_map import (
    DEVICE,
    UNITS,
    holders_of,
    left_of,
    name_of,
)
from phalanx.dashboard.pages.lists import Listed, asked, cut
from phalanx.dashboard.pages.metrics import Gauge, written
from phalanx.dashboard.pages.node_use import NodeUsePage
from phalanx.dashboard.watch import ClusterSnapshot
from phalanx.model.lifecycle import DEAD
from phalanx.model.readable import size
from phalanx.model.rows.cluster import NodeInfo, current_nodes
from phalanx.model.rows.devices import DeviceInfo
from phalanx.model.rows.work import GangInfo
from phalanx.observe.device_health import BAD
from phalanx.observe.usage import MAIN, is_silent

TASKS = "tasks and actors"
"""The holder shown for a device that is held, but not by a gang."""


class NodeList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of nodes."""

    listed: Listed[NodeInfo]
    has_devices: bool
    in_use: dict[str, dict[str, float]] = {}
    """The amounts in use on the machines of the nodes shown, by node id and resource. Nodes whose
    use is not known are left out.
    """

    def used(self, row: NodeInfo) -> list[tuple[str, str]]:
        """Return (resource, amount as text) of each main resource in use on a node's machine."""
        known = self.in_use.get(row.node_id, {})
        return [
            (name, written(name, known[name]))
            for name in MAIN
            if name in known and row.total.get(name)
        ]


COLUMNS: dict[str, Callable[[NodeInfo], Any]] = {
    "name": lambda row: (name_of(row), row.node_id),
    "state": lambda row: (row.state, name_of(row)),
}
_USUAL = "name"


def nodes(
    snapshot: ClusterSnapshot,
    words: Mapping[str, str],
    in_use: Mapping[str, dict[str, float]],
) -> NodeList:
    """Return the nodes that an address selects: by words in the name, id or labels, and by
    state. `in_use`: the amounts in use on the machines of nodes.
    """
    wanted = asked(words, ("q", "state"), _USUAL)
    said, state = wanted.filters.get("q", "").lower().split(), wanted.filters.get("state", "")
    shown = current_nodes(snapshot.status.nodes)
    rows = [
        row
        for row in shown
        if row.state.lower() == (state.lower() or row.state.lower())
        and all(word in _text(row) for word in said)
    ]
    listed = cut(rows, len(shown), wanted, COLUMNS, _USUAL)
    return NodeList(
        listed=listed,
        has_devices=any(row.total.get(DEVICE) for row in snapshot.status.nodes),
        in_use={row.node_id: in_use[row.node_id] for row in listed.rows if row.node_id in in_use},
    )


def _text(row: NodeInfo) -> str:
    labels = " ".join(f"{name}={value}" for name, value in row.labels.items())
    return f"{name_of(row)} {row.node_id} {row.reason} {labels}".lower()


def gauges_of(row: NodeInfo) -> list[Gauge]:
    """Return the allocated amounts of a node. A node that has not reported has none."""
    if row.state == DEAD or is_silent(row):
        return []
    return [
        Gauge(
            name=name,
            used=max(row.total[name] - row.available.get(name, 0.0), 0.0),
            total=row.total[name],
        )
        for name in MAIN
        if row.total.get(name)
    ]


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """A device of a node."""

    number: int
    held: int
    """The part of the device that work holds, in hundredths of the device."""
    holder: str
    job: str
    seen: DeviceInfo | None = None
    """The last reading of the device; None if the device was not read."""

    @property
    def state(self) -> str:
        """The device's state: ok, suspect, bad or closed; empty without a reading."""
        if self.seen is None:
            return ""
        return "closed" if self.seen.is_closed and self.seen.state != BAD else self.seen.state

    @property
    def sharers(self) -> list[str]:
        """The mode of a shared device, and its sharers with their memory, as texts."""
        one = self.seen
        return [f"shared by {one.mode}:", *one.sharers_text] if one and one.sharers else []

    @property
    def processes(self) -> list[str]:
        """The descriptions of the processes on the device."""
        return [] if self.seen is None else self.seen.processes_text

    @property
    def measured(self) -> str:
        """The measured use of the device, as a short text."""
        one = self.seen
        if one is None:
            return ""
        parts = [] if one.busy is None else [f"{100 * one.busy:.0f} % busy"]
        if one.memory_used is not None and one.memory_total is not None:
            parts.append(f"{size(one.memory_used)} of {size(one.memory_total)}")
        parts += [] if one.temperature_c is None else [f"{one.temperature_c:.0f} °C"]
        parts += [] if one.power_w is None else [f"{one.power_w:.0f} W"]
        return ", ".join(parts)


class Guest(msgspec.Struct, frozen=True, kw_only=True):
    """A gang that has members on a node."""

    gang: GangInfo
    members: int
    devices: dict[str, list[int]]


class NodePage(msgspec.Struct, frozen=True, kw_only=True):
    """The page of one node."""

    node: NodeInfo
    gauges: list[Gauge]
    devices: list[Device]
    guests: list[Guest]
    use: NodeUsePage | None = None
    """The answer of the node itself; None if it gave none."""


def node_page(
    snapshot: ClusterSnapshot, node_id: str, seen: Sequence[DeviceInfo] = ()
) -> NodePage | None:
    """Return the page of the node with this id, or else of the only node with this name or this
    beginning of its id; None unless exactly one matches.

    `seen`: the readings of devices.
    """
    rows = snapshot.status.nodes
    found = [row for row in rows if row.node_id == node_id]
    found = found or [row for row in rows if row.state != DEAD and name_of(row) == node_id]
    found = found or [row for row in rows if row.node_id.startswith(node_id)]
    if len(found) != 1:
        return None
    (row,) = found
    here = [gang for gang in snapshot.gangs if row.node_id in gang.nodes]
    holding = holders_of(here)
    devices = []
    read = {one.number: one for one in seen if one.node_id == row.node_id}
    for number, left in left_of(row):
        gang = holding.get((row.node_id, DEVICE, number))
        taken = round(100 * (UNITS - left) / UNITS)
        holder = "" if not taken else TASKS if gang is None else gang.job or gang.name
        known = read.get(number)
        if gang is None and known is not None and known.is_closed:
            taken, holder = 0, ", ".join(known.holders)
        job = "" if gang is None or not taken else gang.job
        devices.append(Device(number=number, held=taken, holder=holder, job=job, seen=known))
    guests = []
    for gang in here:
        members = [i for i, node in enumerate(gang.nodes) if node == row.node_id]
        mine: dict[str, list[int]] = {}
        for index in members:
            for resource, numbers in gang.devices[index].items():
                mine.setdefault(resource, []).extend(numbers)
        guests.append(Guest(gang=gang, members=len(members), devices=mine))
    return NodePage(node=row, gauges=gauges_of(row), devices=devices, guests=guests)
