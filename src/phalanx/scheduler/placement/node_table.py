"""A snapshot of all nodes as arrays, one value for each node, kept up to date row by row."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from phalanx.scheduler.devices.devices import LowestIndex, take
from phalanx.scheduler.devices.instances import IMPLICIT_PREFIX
from phalanx.scheduler.devices.quantities import SCALE
from phalanx.scheduler.devices.sets import EMPTY, ResourceSet

Amounts = npt.NDArray[np.int64]
"""Units of 1/10000, one for each node, in order of node ids."""

Flags = npt.NDArray[np.bool_]
AnyArray = npt.NDArray[Any]

UTILIZED = ("CPU", "memory", "object_store_memory")
"""The resources that make up a node's utilization; GPUs and custom ones are ignored."""


class NodeState(msgspec.Struct, frozen=True, kw_only=True):
    """One node as the deciding code sees it.

    `available` may be negative after a blocked task resumed. `load` is what is queued there and not
    yet running. `devices` are the units left on each numbered device; without it, the available
    amount is taken as whole devices and one shared one.
    """

    id: str
    total: ResourceSet
    available: ResourceSet
    load: ResourceSet = EMPTY
    labels: Mapping[str, str] = {}
    is_schedulable: bool = True
    devices: Mapping[str, tuple[int, ...]] = {}

    def units_left(self, name: str) -> tuple[int, ...]:
        """Return the units left on each device of a numbered resource."""
        if name in self.devices:
            return self.devices[name]
        whole, share = divmod(max(0, self.available.get(name, 0)), SCALE)
        return (SCALE,) * whole + ((share,) if share else ())

    def without(self, request: ResourceSet) -> NodeState:
        """Return this node after `request` was taken; devices by number, lowest first."""
        devices = dict(self.devices)
        for name, units in request.items():
            if name in devices:
                taken = take(dict(enumerate(devices[name])), units, LowestIndex())
                left = list(devices[name])
                for index, share in taken or ():
                    left[index] -= share
                devices[name] = tuple(left)
        return msgspec.structs.replace(self, available=self.available - request, devices=devices)

    def utilization(self) -> float:
        """Return the largest used part of CPU, memory and object store memory; 0 without any."""
        used = [
            1 - self.available.get(name, 0) / self.total[name]
            for name in UTILIZED
            if self.total.get(name, 0) > 0
        ]
        return max(0.0, *used) if used else 0.0


class NodeTable:
    """The nodes in order of their ids, as one array for each resource.

    Readers that derive something from the table remember `generation` and a position in `touched`:
    while the generation stays, only the rows named since that position have changed.
    """

    def __init__(
        self, nodes: Iterable[NodeState] = (), numbered: frozenset[str] = frozenset({"GPU"})
    ) -> None:
        """`numbered` names the resources that come as devices: a share must fit one of them.

        Raises ValueError when two nodes have one id.
        """
        self.numbered = numbered
        self.generation = 0
        self.touched: list[int] = []
        self.states = sorted(nodes, key=lambda node: node.id)
        self.row_of = {node.id: row for row, node in enumerate(self.states)}
        if len(self.row_of) != len(self.states):
            raise ValueError("two nodes have one id")
        self.total: dict[str, Amounts] = {}
        self.available: dict[str, Amounts] = {}
        self.load: dict[str, Amounts] = {}
        self.whole: dict[str, Amounts] = {}  # units on devices that are free as a whole
        self.share: dict[str, Amounts] = {}  # most units left on any one device
        self.is_schedulable: Flags = np.zeros(len(self.states), np.bool_)
        self.utilization = np.zeros(len(self.states))
        for row, node in enumerate(self.states):
            self._write(row, node, None)

    def __len__(self) -> int:
        return len(self.states)

    def put(self, node: NodeState) -> None:
        """Add a node, or take over its new state."""
        row = self.row_of.get(node.id)
        if row is None:
            row = bisect_left(self.states, node.id, key=lambda other: other.id)
            self.states.insert(row, node)
            self._respace(row, lambda column: np.insert(column, row, 0))
            self._write(row, node, None)
            return
        before = self.states[row]
        self.states[row] = node
        self._write(row, node, before)
        self.touched.append(row)
        if len(self.touched) > 10_000 + 4 * len(self.states):
            self.touched.clear()
            self.generation += 1

    def remove(self, node_id: str) -> None:
        """Forget a node. Raises KeyError when no node has that id."""
        row = self.row_of.pop(node_id)
        del self.states[row]
        self._respace(row, lambda column: np.delete(column, row))

    def take(self, node_id: str, request: ResourceSet) -> None:
        """Count `request` as taken from a node, before the node's own next report includes it."""
        self.put(self.states[self.row_of[node_id]].without(request))

    def column(self, kind: dict[str, Amounts], name: str) -> Amounts:
        """Return one resource's amounts out of `total`, `available`, `load`, `whole` or `share`."""
        found = kind.get(name)
        if found is None:
            found = kind[name] = np.zeros(len(self.states), np.int64)
            if kind is not self.load and name.startswith(IMPLICIT_PREFIX):
                found += SCALE  # every node has one of it without declaring it
        return found

    def _respace(self, first: int, moved: Callable[[AnyArray], AnyArray]) -> None:
        """Open or close the gap of the row `first` in all columns."""
        for kind in (self.total, self.available, self.load, self.whole, self.share):
            for name in kind:
                kind[name] = moved(kind[name])
        self.is_schedulable = moved(self.is_schedulable)
        self.utilization = moved(self.utilization)
        for row in range(first, len(self.states)):
            self.row_of[self.states[row].id] = row
        self.touched.clear()
        self.generation += 1

    def _write(self, row: int, node: NodeState, before: NodeState | None) -> None:
        """Write a row; values equal to those `before` are skipped, as most of them are."""
        self.is_schedulable[row] = node.is_schedulable
        if before is None or node.load != before.load:
            self._write_amounts(row, node, self.load, node.load)
        if before is None or node.total != before.total:
            self._write_amounts(row, node, self.total, node.total)
        elif node.available == before.available and node.devices == before.devices:
            return
        self._write_amounts(row, node, self.available, node.available)
        for name in self.numbered:
            if name in self.total:
                left = node.units_left(name)
                self.column(self.whole, name)[row] = left.count(SCALE) * SCALE
                self.column(self.share, name)[row] = max(left, default=0)
        self.utilization[row] = node.utilization()

    def _write_amounts(
        self, row: int, node: NodeState, kind: dict[str, Amounts], amounts: ResourceSet
    ) -> None:
        for name, units in amounts.items():
            self.column(kind, name)[row] = units
        if len(amounts) < len(kind):
            for name, column in kind.items():
                if name not in amounts:
                    is_implicit = kind is not self.load and name.startswith(IMPLICIT_PREFIX)
                    column[row] = SCALE if is_implicit and name not in node.total else 0
