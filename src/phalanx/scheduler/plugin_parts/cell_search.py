"""The search for places of an owner's tasks: first in cells that are bound to the owner, then in
free cells that the promises to others do not need.

The search binds virtual cells to places: it decides which free cell an owner gets. It prefers, in
this order, cells that hold many of the tasks, cells where little work must leave, cells from which
work of the owner itself is evicted, cells whose binding splits no larger free cell, and nodes with
little room. These preferences never endanger the promises, because `Cells.try_to_take` allows no
choice that would.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from phalanx.scheduler.plugin_parts.cells import ALL_BOUND, Cells

Indexes = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Room = npt.NDArray[np.int64]
Key: TypeAlias = npt.NDArray[Any]


class Want(NamedTuple):
    """Equal tasks. `units`: the units of cards that each task takes. `request`: the amounts that
    each task takes of the resources `asked`. `allowed`: the nodes that may take them. `noted`: for
    each task, the node on which the task was promised room earlier, or -1.
    """

    units: int
    request: npt.NDArray[np.int64]
    asked: Sequence[int]
    allowed: Flags
    noted: Sequence[int]


class Rooms(NamedTuple):
    """The room on each node, by resource. `now`: the room that is free, or will be once leaving
    tasks are gone. `all`: the room once all work that may be evicted is gone, too; `now` itself if
    nothing may be evicted. `gpu`: the index of the resource that counts cards. `left`: the nodes
    from which work of the owner is evicted for the tasks.
    """

    now: Room
    all: Room
    gpu: int
    left: Sequence[int] = ()


def find(cells: Cells, owner: str, wants: Sequence[Want], rooms: Rooms) -> list[list[int]]:
    """Return a node for each task of each kind, or -1 where there is none. Changes nothing."""
    found: list[list[int]] = [[-1] * len(want.noted) for want in wants]
    search = _Search(cells, owner, rooms, sum(map(len, found)))
    try:
        for at in sorted(range(len(wants)), key=lambda i: -wants[i].units):
            search.place(wants[at], found[at])
    finally:
        search.undo()
    return found


class _Search:
    """One search. Cells that it has taken stay taken until `undo`."""

    def __init__(self, cells: Cells, owner: str, rooms: Rooms, count: int) -> None:
        self._cells = cells
        self._owner = owner
        self._mine = cells.number(owner)
        self._level = cells.level_of(owner)
        self._inside = self._level < cells.node_level
        self._gpu = rooms.gpu
        self._room = rooms.all
        self._now = rooms.now
        self._evicts = rooms.now is not rooms.all
        self._is_copy = False
        self._count = count
        """The number of tasks that have no place yet."""
        self._left = frozenset(rooms.left)
        self._taken: list[tuple[int, int]] = []

    def undo(self) -> None:
        for node, units in reversed(self._taken):
            self._cells.take(self._owner, node, -units)

    def place(self, want: Want, found: list[int]) -> None:
        """Write the nodes of the tasks to `found`. Tasks for which no node is left keep -1."""
        self._want = want
        fits = want.allowed.copy()
        for r, amount in zip(want.asked, want.request.tolist(), strict=True):
            fits &= self._room[:, r] >= amount
        self._fits = fits
        for i, node in enumerate(want.noted) if max(want.noted) >= 0 else ():
            if node >= 0 and fits[node] and self._may_leave(node) and self._take(node, 1):
                self._occupy(node, 1)
                found[i] = node
        left = [i for i, node in enumerate(found) if node < 0]
        while left:
            node, count = self._next(len(left))
            if node < 0:
                return
            self._occupy(node, count)
            for i in left[:count]:
                found[i] = node
            left = left[count:]

    def _next(self, count: int) -> tuple[int, int]:
        """Return the node for the next tasks, and how many of them go there; -1 for none."""
        if not self._want.units:
            return self._beside()
        return self._in_node(count) if self._inside else self._in_cell(count)

    def _take(self, node: int, count: int) -> bool:
        """Take cells for tasks on a node, unless the promises forbid it. Returns whether the cells
        were taken.
        """
        if not self._want.units:
            return True
        self._fault = self._cells.try_to_take(self._owner, node, self._want.units * count)
        if self._fault is None:
            self._taken.append((node, self._want.units * count))
        return self._fault is None

    def _occupy(self, node: int, count: int) -> None:
        self._count -= count
        if not self._count:
            return
        if not self._is_copy:
            self._is_copy = True
            self._room = self._room.copy("F")
            self._now = self._now.copy("F") if self._evicts else self._room
        want = self._want
        for r, amount in zip(want.asked, want.request.tolist(), strict=True):
            self._room[node, r] -= amount * count
            if self._evicts:
                self._now[node, r] -= amount * count
            if self._room[node, r] < amount:
                self._fits[node] = False

    def _times(self, nodes: Indexes, most: int) -> Indexes:
        """Return for each of these nodes how many of the tasks have room there, at most `most`."""
        times: Indexes = np.full(len(nodes), most, dtype=np.int64)
        if most > 1:
            for r, amount in zip(self._want.asked, self._want.request.tolist(), strict=True):
                np.minimum(times, self._room[nodes, r] // amount, out=times)
        return times

    def _evicted(self, nodes: Indexes, times: Indexes) -> Indexes:
        """Return for each of these nodes a measure of how much work must leave it, if `times` tasks
        go there.
        """
        out: Indexes = np.zeros(len(nodes), dtype=np.int64)
        if not self._evicts:
            return out
        for r, amount in zip(self._want.asked, self._want.request.tolist(), strict=True):
            short = amount * times - self._now[nodes, r]
            if r == self._gpu:
                out += np.maximum(short, 0)
            out += short > 0
        return out

    # -- tasks without cards --------------------------------------------------------------------

    def _beside(self) -> tuple[int, int]:
        """Return a node for one task without cards, and 1; (-1, 0) if there is none. Work is
        evicted for the task only in cells that are bound to the owner.
        """
        nodes = np.flatnonzero(self._fits)
        nodes = nodes[self._bound(nodes) | (self._evicted(nodes, _ones(nodes)) == 0)]
        if not len(nodes):
            return -1, 0
        away = ~self._bound(nodes)
        leaving = self._evicted(nodes, _ones(nodes))
        keys = (leaving, away, self._room[nodes, self._want.asked[0]])
        return int(nodes[_first(np.arange(len(nodes)), keys)]), 1

    def _may_leave(self, node: int) -> bool:
        """Whether a task may go to the node on which it was promised room: it requests cards, or no
        work must leave the node for it.
        """
        here = np.array([node])
        return bool(self._want.units or not self._evicted(here, _ones(here))[0])

    def _bound(self, nodes: Indexes) -> Flags:
        """Return a flag for each of these nodes: whether the owner has a bound cell there."""
        if not self._inside:
            bound: Flags = self._cells.owner[nodes] == self._mine
            return bound
        held = self._cells.held_by[self._owner]
        return np.isin(nodes, np.fromiter(held, dtype=np.int64, count=len(held)))

    # -- cells that are nodes or groups ---------------------------------------------------------

    def _in_cell(self, count: int) -> tuple[int, int]:
        cells = self._cells
        nodes = np.flatnonzero(self._fits & (cells.owner == self._mine))
        if len(nodes):
            return self._take_best(nodes, count)
        nodes = np.flatnonzero(self._fits & cells.unheld(self._level) & (cells.owner < 0))
        if not len(nodes):
            return -1, 0
        around = cells.around(self._level)[nodes]
        times = self._times(nodes, count)
        keys: list[Key] = []
        in_group = self._level > cells.node_level
        if in_group or count > 1:
            holds = np.bincount(around, times)[around] if in_group else times
            keys.append(-np.minimum(holds, count))
        if self._evicts:
            here = self._evicted(nodes, times)
            away = self._away(nodes)
            keys += [np.bincount(around, key)[around] if in_group else key for key in (here, away)]
        keys.append(cells.breaks(nodes))
        keys += [here] if self._evicts else []
        keys.append(self._room[nodes, self._gpu])
        for at in self._in_order(nodes, keys):
            node, often = int(nodes[at]), int(times[at])
            if self._take(node, often):
                return node, often
        return -1, 0

    def _in_order(self, nodes: Indexes, keys: Sequence[Key]) -> Iterator[int]:
        """Yield positions of nodes in the order of the keys. If the promises refuse the yielded
        node, all nodes of its kind (`Cells.kinds`) are left out.
        """
        at = np.arange(len(nodes))
        kinds: Indexes | None = None
        while len(at):
            chosen = _first(at, keys)
            yield chosen
            if self._fault == ALL_BOUND:
                return
            kinds = self._cells.kinds(nodes) if kinds is None else kinds
            at = at[kinds[at] != kinds[chosen]]

    def _away(self, nodes: Indexes) -> Indexes:
        """Return 0 for each node from which work of the owner is evicted, and 1 for the others."""
        away: Indexes = np.array(
            [node not in self._left for node in nodes.tolist()], dtype=np.int64
        )
        return away

    def _take_best(self, nodes: Indexes, count: int) -> tuple[int, int]:
        """Take room on the best of these nodes, in cells that are bound to the owner already.
        Returns the node, and how many tasks go there.
        """
        times = self._times(nodes, count)
        keys: list[Key] = [self._evicted(nodes, _ones(nodes))] if self._evicts else []
        at = _first(np.arange(len(nodes)), (*keys, self._room[nodes, self._gpu]))
        node, often = int(nodes[at]), int(times[at])
        self._take(node, often)
        return node, often

    # -- cells that are sets of cards of one node -----------------------------------------------

    def _in_node(self, count: int) -> tuple[int, int]:
        own = self._begun()
        for node in own:
            if self._take(node, 1):
                return node, 1
        cells = self._cells
        fits = self._fits & (cells.owner < 0)
        fits[own] = False
        nodes = np.flatnonzero(fits)
        keys = [self._evicted(nodes, _ones(nodes)), self._away(nodes)] if self._evicts else []
        keys += [cells.breaks(nodes), self._room[nodes, self._gpu]]
        for at in self._in_order(nodes, keys):
            node = int(nodes[at])
            often = int(self._times(nodes[at : at + 1], count)[0])
            if often > 1 and self._take(node, often):
                return node, often
            if self._take(node, 1):
                return node, 1
        return -1, 0

    def _begun(self) -> list[int]:
        """Return the nodes on which a set of cards is bound to the owner and has unused cards, the
        best node first.
        """
        cells, owner = self._cells, self._owner
        nodes = [node for node in cells.begun(owner) if self._fits[node] and cells.owner[node] < 0]
        if len(nodes) < 2:
            return nodes
        index = np.array(sorted(nodes), dtype=np.int64)
        leaving = self._evicted(index, _ones(index)).tolist()
        slack = [cells.slack(owner, node) for node in index.tolist()]
        lacks = [max(0, self._want.units - left) for left in slack]
        ranked = sorted(zip(lacks, leaving, slack, index.tolist(), strict=True))
        return [node for _, _, _, node in ranked]


def _ones(nodes: Indexes) -> Indexes:
    return np.ones(len(nodes), dtype=np.int64)


def _first(at: Indexes, keys: Sequence[Key]) -> int:
    """Return the position with the smallest keys among `at`; among equals, the first."""
    for key in keys:
        values = key[at]
        at = at[values == values.min()]
        if len(at) == 1:
            break
    return int(at[0])
