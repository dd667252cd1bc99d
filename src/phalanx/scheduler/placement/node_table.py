"""All nodes as arrays that have one value for each node. Single rows are updated."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from phalanx.model.gpu_sharing import GPU, MEMORY, TERMS, TIME
from phalanx.scheduler.devices.cards import (
    PLAIN,
    CardAsk,
    Cards,
    Taken,
    card_ask,
    most_free,
    pick_cards,
    shared_by,
)
from phalanx.scheduler.devices.devices import LowestIndex, take
from phalanx.scheduler.devices.instances import IMPLICIT_PREFIX
from phalanx.scheduler.devices.quantities import SCALE
from phalanx.scheduler.devices.sets import EMPTY, ResourceSet

Amounts = npt.NDArray[np.int64]
"""One amount for each node, in units of 1/10000, in the order of node ids."""

Flags = npt.NDArray[np.bool_]
AnyArray = npt.NDArray[Any]

UTILIZED = ("CPU", "memory", "object_store_memory")
"""The resources that a node's utilization is computed from. GPUs and custom resources are
ignored.
"""


class NodeState(msgspec.Struct, frozen=True, kw_only=True):
    """One node as placement reads it. `available` may be negative after a blocked task has resumed.
    `load`: the amounts that queued work there requests. `devices`: the units left on each numbered
    device. Without `devices`, the available amount counts as whole devices and one shared device.
    """

    id: str
    total: ResourceSet
    available: ResourceSet
    load: ResourceSet = EMPTY
    labels: Mapping[str, str] = {}
    is_schedulable: bool = True
    devices: Mapping[str, tuple[int, ...]] = {}
    cards: Cards = PLAIN
    """Facts about the node's GPUs, without the units left on each."""

    def units_left(self, name: str) -> tuple[int, ...]:
        """Return the units left on each device of a numbered resource."""
        if name in self.devices:
            return self.devices[name]
        whole, share = divmod(max(0, self.available.get(name, 0)), SCALE)
        return (SCALE,) * whole + ((share,) if share else ())

    def without(self, request: ResourceSet) -> NodeState:
        """Return this node after `request` was taken. Devices with the lowest numbers are taken
        first.
        """
        devices, cards = dict(self.devices), self.cards
        ask = card_ask(request)
        amounts = dict(request)
        for name, units in request.items():
            if name in devices:
                numbered = dict(enumerate(devices[name]))
                if name == GPU and ask is not None:
                    taken = self.pick(ask, numbered)
                    cards = shared_by(cards, ask, taken or ())
                else:
                    taken = take(numbered, units, LowestIndex())
                left = list(devices[name])
                for index, share in taken or ():
                    left[index] -= share
                devices[name] = tuple(left)
                amounts[name] = sum(share for _, share in taken) if taken else units
            elif name in TERMS:
                del amounts[name]
        available = self.available - amounts
        return msgspec.structs.replace(self, available=available, devices=devices, cards=cards)

    @property
    def card_memory(self) -> int:
        """The memory of the node's largest GPU in bytes; 0 if it is unknown."""
        return self.total.get(MEMORY, 0) // SCALE

    def card_sizes(self) -> list[int]:
        """Return the memory in bytes of each of the node's GPUs."""
        count = len(self.devices.get(GPU, ())) or self.total.get(GPU, 0) // SCALE
        return [self.cards.memory_of(number, self.card_memory) for number in range(count)]

    def pick(self, ask: CardAsk, left: Mapping[int, int] | None = None) -> Taken | None:
        """Return the cards that a request would get if cards have these units `left`; None if there
        are too few.
        """
        if left is None:
            left = dict(enumerate(self.units_left(GPU)))
        return pick_cards(left, ask, self.cards, self.card_memory)

    def most_on_cards(self, ask: CardAsk, when_empty: bool = False) -> int:
        """Return the most that a request could get on the node's cards. `most_free` defines the
        result and its unit. `when_empty`: whether to count as if nothing ran on the node.
        """
        left: Sequence[int] = self.units_left(GPU)
        if when_empty:
            count = len(left) if GPU in self.devices else self.total.get(GPU, 0) // SCALE
            left = (SCALE,) * count
        return most_free(left, ask, self.cards, self.card_memory)

    def utilization(self) -> float:
        """Return the largest used fraction of CPU, memory and object store memory; 0 if the node
        has none of these.
        """
        used = [
            1 - self.available.get(name, 0) / self.total[name]
            for name in UTILIZED
            if self.total.get(name, 0) > 0
        ]
        return max(0.0, *used) if used else 0.0


class NodeTable:
    """The nodes in the order of their ids, with one array for each resource.

    A reader that derives values from the table remembers `generation` and the length of `touched`.
    While `generation` stays the same, only the rows that were added to `touched` after that have
    changed.
    """

    def __init__(
        self, nodes: Iterable[NodeState] = (), numbered: frozenset[str] = frozenset({"GPU"})
    ) -> None:
        """`numbered`: the names of resources that consist of devices. A share of such a resource
        must fit one device. Raises ValueError if two nodes have the same id.
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
        self.whole: dict[str, Amounts] = {}  # the units on completely free devices
        # the largest number of units on one device that can be shared
        self.share: dict[str, Amounts] = {}
        self.is_schedulable: Flags = np.zeros(len(self.states), np.bool_)
        self.utilization = np.zeros(len(self.states))
        for row, node in enumerate(self.states):
            self._write(row, node, None)

    def __len__(self) -> int:
        return len(self.states)

    def put(self, node: NodeState) -> None:
        """Add a node, or replace its state."""
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
        """Forget a node. Raises KeyError if no node has that id."""
        row = self.row_of.pop(node_id)
        del self.states[row]
        self._respace(row, lambda column: np.delete(column, row))

    def take(self, node_id: str, request: ResourceSet) -> None:
        """Count `request` as taken from a node until the node's own next report includes it."""
        self.put(self.states[self.row_of[node_id]].without(request))

    def column(self, kind: dict[str, Amounts], name: str) -> Amounts:
        """Return the amount of one resource on each node. `kind`: one of the table's mappings
        `total`, `available`, `load`, `whole` and `share`.
        """
        found = kind.get(name)
        if found is None:
            found = kind[name] = np.zeros(len(self.states), np.int64)
            if kind is not self.load and name.startswith(IMPLICIT_PREFIX):
                found += SCALE  # every node has one unit of this resource without declaring it
        return found

    def _respace(self, first: int, moved: Callable[[AnyArray], AnyArray]) -> None:
        """Insert an entry for the row `first` into all columns, or remove it. `moved`: the function
        that does this to one column.
        """
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
        """Write a row. `before`: the node's former state; values that are the same in it are not
        written again.
        """
        self.is_schedulable[row] = node.is_schedulable
        if before is None or node.load != before.load:
            self._write_amounts(row, node, self.load, node.load)
        if before is None or node.total != before.total:
            self._write_amounts(row, node, self.total, node.total)
        elif (
            node.available == before.available
            and node.devices == before.devices
            and node.cards == before.cards
        ):
            return
        self._write_amounts(row, node, self.available, node.available)
        for name in self.numbered:
            if name in self.total:
                left = node.units_left(name)
                self.column(self.whole, name)[row] = left.count(SCALE) * SCALE
                if name == GPU and node.cards.modes:
                    left = _in_turns(left, node.cards)
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


def _in_turns(left: tuple[int, ...], cards: Cards) -> tuple[int, ...]:
    """Return the units left on each card for a request that shares a card by time. Cards that are
    shared in another mode have none.
    """
    return tuple(
        units if units == SCALE or cards.mode_of(number) in ("", TIME) else 0
        for number, units in enumerate(left)
    )
