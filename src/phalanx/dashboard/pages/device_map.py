"""Data of the map of all devices: their holders, their use, and marks of devices that get no new
work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from phalanx.dashboard.pages.styles import Looks
from phalanx.dashboard.watch import ClusterSnapshot
from phalanx.model.lifecycle import DEAD
from phalanx.model.rows.cluster import NodeInfo
from phalanx.model.rows.devices import DeviceInfo
from phalanx.model.rows.work import GangInfo
from phalanx.observe.device_health import BAD
from phalanx.observe.usage import is_silent

UNITS = 10_000
"""The units of a whole device. Its free part is counted in these units."""
DEVICE = "GPU"
NOBODY, OTHERS, CLOSED = -1, -2, -3
"""The values of `Grid.holder` that are not an index."""
WELL, IS_BAD, IS_CORDONED, IS_SUSPECT = range(4)
"""The values of `Grid.mark`."""
UNREAD = -1
"""The value of a reading that is missing."""
_STEP = 5
"""The step, in hundredths, to which readings are rounded, so that open pages get fewer changes."""


class Holder(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A holder of devices: a job, or a gang of a program. The looks are numbers from
    `styles.Looks`.
    """

    name: str
    queue: str
    job: str
    """The job, as NAMESPACE/NAME; empty for a gang of a program."""
    look: int
    """The look of the holder. `queue_look`: the look of its queue."""
    queue_look: int


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """The devices of all nodes, as columns with one entry for each device, node after node.

    `held`: the held part in hundredths. `holder`: an index into `holders`, or -1 for a free device,
    -2 for tasks and actors, -3 for a closed device without a holder. `mark`: 1 for a bad device, 2
    for a cordoned device, 3 for a suspect device. `busy` and `memory`: the used part in hundredths;
    `heat`: degrees; -1 where nothing was read.
    """

    nodes: list[str]
    """The names of the nodes, in the order of their devices."""
    ids: list[str]
    states: list[str]
    devices: list[int]
    """The number of devices of each node."""
    held: list[int]
    holder: list[int]
    mark: list[int]
    busy: list[int]
    memory: list[int]
    heat: list[int]
    holders: list[Holder]
    shared: dict[int, str] = {}
    """The mode and the sharers of each shared device, by its index in the columns."""


class DeviceMaps:
    """The maps of devices, one for each snapshot. A job keeps its look as long as it is on the
    map.
    """

    def __init__(self) -> None:
        self._jobs, self._queues = Looks(), Looks()

    def grid(self, snapshot: ClusterSnapshot, seen: Sequence[DeviceInfo] = ()) -> Grid:
        """Return the grid of all devices. Nodes without devices are left out. `seen`: the readings
        of devices.
        """
        holding = holders_of(snapshot.gangs)
        nodes = [row for row in ordered(snapshot) if row.total.get(DEVICE)]
        holders, near = _holders(nodes, holding)
        looks = self._jobs.of((gang.group for gang in holders), near)
        queue_looks = self._queues.of((queue.name for queue in snapshot.queues), {})
        index = {gang.group: at for at, gang in enumerate(holders)}
        read = {(one.node_id, one.number): one for one in seen}
        cells = [
            _cell(row, number, left, holding, index, read)
            for row in nodes
            for number, left in left_of(row)
        ]
        places = [(row.node_id, number) for row in nodes for number, _ in left_of(row)]
        held, holder, mark, busy, memory, heat = (
            (list(column) for column in zip(*cells, strict=True)) if cells else ([],) * 6
        )
        return Grid(
            nodes=[name_of(row) for row in nodes],
            ids=[row.node_id for row in nodes],
            states=[row.state.lower() for row in nodes],
            devices=[len(list(left_of(row))) for row in nodes],
            held=held, holder=holder, mark=mark, busy=busy, memory=memory, heat=heat,
            holders=[
                Holder(
                    name=gang.job or gang.name,
                    queue=gang.queue,
                    job=gang.job,
                    look=looks[gang.group],
                    queue_look=queue_looks.get(gang.queue, 0),
                )
                for gang in holders
            ],
            shared={
                at: f"shared by {one.mode}: {', '.join(one.sharers_text)}"
                for at, place in enumerate(places)
                if (one := read.get(place)) is not None and one.sharers
            },
        )  # fmt: skip


Holding = dict[tuple[str, str, int], GangInfo]


def holders_of(gangs: Iterable[GangInfo]) -> Holding:
    """Return the gang of `gangs` that holds each device, by (node, resource, number).

    If several gangs share a device, one of them is returned.
    """
    found = {}
    for gang in gangs:
        for node, devices in zip(gang.nodes, gang.devices, strict=False):
            for resource, numbers in devices.items() if node else ():
                for number in numbers:
                    found[node, resource, number] = gang
    return found


def name_of(row: NodeInfo) -> str:
    """Return a node's display name."""
    return row.name or row.hostname or row.host


def ordered(snapshot: ClusterSnapshot) -> list[NodeInfo]:
    """Return the nodes that are not dead, sorted by name."""
    return sorted(
        (row for row in snapshot.status.nodes if row.state != DEAD),
        key=lambda row: (name_of(row), row.node_id),
    )


def left_of(row: NodeInfo) -> Iterator[tuple[int, int]]:
    """Yield the number and the free units of each device of a node."""
    left = row.devices.get(DEVICE)
    if left is not None:
        yield from enumerate(left)
        return
    for index in range(int(row.total.get(DEVICE, 0))):
        yield index, UNITS if not is_silent(row) else 0


def _holders(
    nodes: Sequence[NodeInfo], holding: Holding
) -> tuple[list[GangInfo], dict[str, set[str]]]:
    """Return the gangs that hold devices, oldest first, and the neighbours of each gang. Neighbours
    are the gangs on the same node, or on the node before or after it. Gangs are named by their
    group's id.
    """
    found: dict[str, GangInfo] = {}
    near: dict[str, set[str]] = {}
    before: set[str] = set()
    for row in nodes:
        here = [holding.get((row.node_id, DEVICE, number)) for number, _ in left_of(row)]
        groups = {gang.group for gang in here if gang is not None}
        found |= {gang.group: gang for gang in here if gang is not None}
        for group in groups:
            near.setdefault(group, set()).update(groups | before)
        for group in before:
            near[group].update(groups)
        before = groups
    return sorted(found.values(), key=lambda gang: (gang.created, gang.group)), near


def _cell(
    row: NodeInfo,
    number: int,
    left: int,
    holding: Holding,
    index: dict[str, int],
    read: dict[tuple[str, int], DeviceInfo],
) -> tuple[int, int, int, int, int, int]:
    gang = holding.get((row.node_id, DEVICE, number))
    is_closed = gang is None and number in row.closed
    held = 0 if is_closed else round(100 * (UNITS - left) / UNITS)
    if gang is not None:
        holder = index[gang.group]
    else:
        holder = CLOSED if is_closed else OTHERS if held else NOBODY
    one = read.get((row.node_id, number))
    return (held, holder, _mark(row, number), *_readings(one))


def _mark(row: NodeInfo, number: int) -> int:
    state = next((state for at, state, *_ in row.unwell if at == number), "")
    if state == BAD:
        return IS_BAD
    if number in row.closed:
        return IS_CORDONED
    return IS_SUSPECT if state else WELL


def _readings(one: DeviceInfo | None) -> tuple[int, int, int]:
    """Return the busy part and the used memory in hundredths, and the temperature in degrees."""
    if one is None:
        return UNREAD, UNREAD, UNREAD
    memory: Any = None
    if one.memory_used is not None and one.memory_total:
        memory = 100 * one.memory_used / one.memory_total
    busy = None if one.busy is None else 100 * one.busy
    return _coarse(busy), _coarse(memory), _coarse(one.temperature_c)


def _coarse(value: float | None) -> int:
    """Round a value to a multiple of `_STEP`. Only 0 becomes 0."""
    if value is None:
        return UNREAD
    return max(round(value / _STEP) * _STEP, _STEP) if value > 0 else 0


def grid_changes(before: Grid, now: Grid) -> dict[str, Any]:
    """Return the changes from grid `before` to `now`: changed cells, or the whole grid."""
    shape = (now.nodes, now.ids, now.states, now.devices)
    if shape != (before.nodes, before.ids, before.states, before.devices):
        whole: dict[str, Any] = msgspec.to_builtins(now)
        return whole
    # When the list of holders differs, the same index means another holder.
    moved = before.holders != now.holders
    columns = [(getattr(before, name), getattr(now, name)) for name in COLUMNS]
    cells = [
        (at, *(new[at] for _, new in columns))
        for at in range(len(now.held))
        if any(old[at] != new[at] for old, new in columns)
    ]
    shares = before.shared != now.shared
    if not cells and not moved and not shares:
        return {}
    return {
        "cells": cells,
        **({"holders": msgspec.to_builtins(now.holders)} if moved else {}),
        **({"shared": now.shared} if shares else {}),
    }


COLUMNS = ("held", "holder", "mark", "busy", "memory", "heat")
"""The names of a changed cell's values, in order."""
