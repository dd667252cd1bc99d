"""Cells: parts of a cluster's topology that are promised to owners and bound to places on demand.

The levels of cells are, from the smallest: sets of cards of one node, whole nodes, and groups of
nodes. Each owner is promised a number of cells of one level. While an owner holds a card in a cell,
the cell is bound to the owner, and no other owner may hold a card there. All other cells stay
unbound: a promise names no particular cell, and any free cell of the level can fulfil it. As in
buddy allocation, a cell is split into the cells of the next level when one of its parts is bound,
and it is whole again once nothing in it is held.

`fault` checks the rule of safety: an owner may not take a card if the free cells would then cover
fewer of the promises that are not bound yet. Therefore the promises can be kept, wherever other
owners run their work. If the cluster is too small for all promises, for example because nodes
broke, no owner may take a card that would increase the number of lacking cells.

Cards inside a node are only counted: a cell of four cards is any four cards of the node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from phalanx.scheduler.plugin_parts.card_sets import CARD, CardSets
from phalanx.scheduler.plugin_parts.cell_tree import Cell, Place, Shape, build, cards_of, order

OTHERS = ""
"""The owner of cards that no promise covers and that cannot be evicted."""

ALL_BOUND = "all-bound"
"""The fault that every cell promised to the owner is bound already."""
BOUND_TO_OTHERS = "bound-to-others"
"""The fault that the cell, or a part of it, is bound to other owners."""
PROMISED = "promised"
"""The fault that the free cell is needed for promises to other owners."""
OUTSIDE = "outside"
"""The fault that the node is in no cell of the level, or that the owner has no promise."""

_NOBODY = -1


class Promise(NamedTuple):
    """A level, and the number of its cells that are promised."""

    level: int
    number: int


class Cells:
    """The cells of a cluster, the promises of cells, and what owners hold in them."""

    def __init__(
        self, sizes: Sequence[int], places: Sequence[Place], promises: Mapping[str, Promise]
    ) -> None:
        """`sizes`: the number of cards of a cell, for each level inside nodes: ascending from 1,
        and each a multiple of the previous one. Level `len(sizes)` is the node; the levels of
        groups follow.
        """
        self._sizes = tuple(sizes)
        self.node_level = len(sizes)
        self.promises = dict(promises)
        self._inside = CardSets(sizes, {owner: p.level for owner, p in promises.items()})
        self.nodes, groups = build(places, self.node_level)
        highest = max((promise.level for promise in promises.values()), default=0)
        levels = [group.level for group in groups]
        self._levels = 1 + max([self.node_level, highest, *levels])
        self._number_of = {owner: i for i, owner in enumerate((OTHERS, *promises))}
        self._bound: Counter[str] = Counter()
        """The number of cells that are bound to each owner."""
        self.held_by: dict[str, dict[int, int]] = {owner: {} for owner in promises}
        """For each owner with a promise, the units that it holds on nodes."""
        self._begun: dict[str, set[int]] = {owner: set() for owner in promises}
        self._free: Counter[tuple[int, Shape]] = Counter()
        """The largest free cells by level and shape; sets of cards have the shape 0."""
        self._lacking: list[int] | None = None
        n = len(places)
        self.owner: npt.NDArray[np.int64] = np.full(n, _NOBODY, dtype=np.int64)
        """For each node, the number of the owner of the node or of a group around it."""
        self._own_kind: npt.NDArray[np.int64] = np.zeros(n, dtype=np.int64)
        """For each node, a number for its cards and the sets of cards that are bound there."""
        self._chain: npt.NDArray[np.int64] = np.zeros(n, dtype=np.int64)
        """For each node, a number for the shapes of the free groups around it."""
        self._broken: npt.NDArray[np.int64] = np.zeros(n, dtype=np.int64)
        self._numbers: dict[Hashable, int] = {}
        self.has_cards = np.array([place.cards for place in places], dtype=np.int64) > 0
        self._around: dict[int, npt.NDArray[np.int64]] = {}
        self._unheld: dict[int, npt.NDArray[np.bool_]] = {}
        for level in {promise.level for promise in promises.values()}:
            if level >= self.node_level:
                self._find_around(level, groups)
        for cell in (*groups, *self.nodes):
            if cell.parent is None:
                self._free.update(self._given(cell))
                self._mark(cell, ())
        cards = [place.cards for place in places]
        kinds = {n: self._numbers.setdefault((n, None), len(self._numbers)) for n in set(cards)}
        self._own_kind[:] = [kinds[n] for n in cards]

    def _find_around(self, level: int, groups: Sequence[Cell]) -> None:
        around = self._around[level] = np.full(len(self.nodes), _NOBODY, dtype=np.int64)
        cells = self.nodes if level == self.node_level else groups
        for number, cell in enumerate(cell for cell in cells if cell.level == level):
            around[cell.index] = number
        self._unheld[level] = around >= 0

    # -- questions ------------------------------------------------------------------------------

    def bound(self, owner: str) -> int:
        """Return the number of cells that are bound to an owner."""
        return self._bound[owner]

    def number(self, owner: str) -> int:
        """Return the number by which arrays name an owner."""
        return self._number_of[owner]

    def level_of(self, owner: str) -> int:
        promise = self.promises.get(owner)
        return 0 if promise is None else promise.level

    def unheld(self, level: int) -> npt.NDArray[np.bool_]:
        """Return for each node whether it is in a free cell of this level. The level must be that
        of nodes or of groups. Callers must not write to the array.
        """
        return self._unheld[level]

    def around(self, level: int) -> npt.NDArray[np.int64]:
        """Return for each node the number of the cell of this level that contains it; -1 if none
        does. The level is that of nodes or of groups. Callers must not write to the array.
        """
        return self._around[level]

    def kinds(self, index: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return a number for each of these nodes. If two nodes have the same number, taking either
        of them changes the free cells in the same way.
        """
        return (self._own_kind[index] << 32) + self._chain[index]

    def breaks(self, index: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return for each of these nodes how many free groups are split when the node is taken."""
        return self._broken[index]

    def begun(self, owner: str) -> Iterable[int]:
        """Return the nodes on which bound sets of cards of the owner have unused units
        (`slack`).
        """
        return self._begun[owner]

    def slack(self, owner: str, node: int) -> int:
        """Return how many units are unused in the sets of cards that are bound to the owner on this
        node.
        """
        units = self.held_by[owner].get(node, 0)
        level = self.level_of(owner)
        return self._inside.sets(level, units) * self._sizes[level] * CARD - units

    def lacking(self) -> list[int]:
        """Return, for each level, how many promised cells are not bound, and could not be bound
        because too few cells are free.
        """
        if self._lacking is None:
            self._lacking = self._lack()
        return self._lacking

    def _lack(self) -> list[int]:
        wanted = [0] * self._levels
        for owner, promise in self.promises.items():
            wanted[promise.level] += max(0, promise.number - self._bound[owner])
        lacking = [0] * self._levels
        inside = [0] * self.node_level
        whole: list[Counter[Shape]] = [Counter() for _ in range(self._levels)]
        for (level, shape), count in self._free.items():
            if level < self.node_level:
                inside[level] += count
            elif count:
                whole[level][shape] += count
        for level in reversed(range(self.node_level, self._levels)):
            need = wanted[level]
            with_cards = [shape for shape in whole[level] if cards_of(shape)]
            for shape in sorted(with_cards, key=order):  # the smallest are set aside first
                kept = min(need, whole[level][shape])
                need -= kept
                self._split(shape, whole[level][shape] - kept, whole, inside)
            lacking[level] = need
        rest = 0
        for level in reversed(range(self.node_level)):
            there = inside[level] + rest - wanted[level]
            lacking[level] = max(0, -there)
            if level:
                rest = max(0, there) * (self._sizes[level] // self._sizes[level - 1])
        return lacking

    def _split(
        self, shape: Shape, count: int, whole: list[Counter[Shape]], inside: list[int]
    ) -> None:
        if not count:
            return
        if isinstance(shape, int):
            for level, sets in enumerate(self._inside.free(shape, {})):
                inside[level] += sets * count
        else:
            for (level, part), times in shape:
                whole[level][part] += times * count

    def fault(self, owner: str, node: int, units: int) -> str | None:
        """Return why an owner may not take this many units of a node's cards; None if the owner may
        take them.
        """
        found = self.try_to_take(owner, node, units)
        if found is None:
            self.take(owner, node, -units)
        return found

    def try_to_take(self, owner: str, node: int, units: int) -> str | None:
        """Take units of a node's cards for an owner, and return None. If a fault forbids that, take
        nothing and return the fault.
        """
        promise = self.promises.get(owner)
        if promise is None or not self.nodes[node].shape:
            return OUTSIDE
        mine, bound_to = self._number_of[owner], int(self.owner[node])
        if bound_to not in (_NOBODY, mine):
            return BOUND_TO_OTHERS
        if promise.level >= self.node_level:
            if bound_to == mine:
                self.take(owner, node, units)
                return None
            if self._around[promise.level][node] < 0:
                return OUTSIDE
            if not self._unheld[promise.level][node]:
                return BOUND_TO_OTHERS
        before, lacked = self._bound[owner], self.lacking()
        self.take(owner, node, units)
        found = self._fault_of_taken(owner, node, promise, before, lacked)
        if found is not None:
            self.take(owner, node, -units)
            self._lacking = lacked
        return found

    def _fault_of_taken(
        self, owner: str, node: int, promise: Promise, before: int, lacked: list[int]
    ) -> str | None:
        """Return why the promises forbid the units that were taken last; None if the promises allow
        them.
        """
        if self._bound[owner] == before:
            return None
        if self._bound[owner] > promise.number:
            return ALL_BOUND
        if promise.level < self.node_level and self._is_too_full(self.nodes[node]):
            return BOUND_TO_OTHERS
        worse = any(a > b for a, b in zip(self.lacking(), lacked, strict=True))
        return PROMISED if worse else None

    def _is_too_full(self, node: Cell) -> bool:
        assert isinstance(node.shape, int)
        return bool(node.held) and min(self._inside.free(node.shape, node.held)) < 0

    def faults(self, owner: str, units: int) -> tuple[list[str | None], npt.NDArray[np.int64]]:
        """Return what `fault` would return for each node, in two parts: a list of the different
        answers, and for each node the index of its answer in this list.
        """
        answers: list[str | None] = [None, OUTSIDE, BOUND_TO_OTHERS]
        at = np.ones(len(self.nodes), dtype=np.int64)
        promise = self.promises.get(owner)
        if promise is None:
            return answers, at
        unsure = self.has_cards & (self.owner == _NOBODY)
        at[self.has_cards & (self.owner != _NOBODY)] = 2
        singly: Iterable[int] = ()
        if promise.level >= self.node_level:
            at[self.has_cards & (self.owner == self._number_of[owner])] = 0
            at[unsure & (self._around[promise.level] >= 0)] = 2
            unsure &= self._unheld[promise.level]
        else:
            singly = [node for node in self.held_by[owner] if unsure[node]]
            unsure[list(singly)] = False
        rest = np.flatnonzero(unsure)
        _, first, of = np.unique(self.kinds(rest), return_index=True, return_inverse=True)
        asked = [*singly, *rest[first].tolist()]
        found = [self.fault(owner, node, units) for node in asked]
        answers += [fault for fault in dict.fromkeys(found) if fault not in answers]
        numbers = np.array([answers.index(fault) for fault in found], dtype=np.int64)
        at[list(singly)] = numbers[: len(asked) - len(first)]
        at[rest] = numbers[len(asked) - len(first) :][of]
        return answers, at

    # -- holdings -------------------------------------------------------------------------------

    def take(self, owner: str, node: int, units: int) -> None:
        """Record that an owner holds this many more units of a node's cards; a negative number
        means fewer.
        """
        cell: Cell | None = self.nodes[node]
        level = self.level_of(owner)
        if level >= self.node_level and -units < self.nodes[node].held.get(owner, 0) > 0:
            while cell is not None:  # no cell becomes bound or free
                cell.held[owner] += units
                cell = cell.parent
            self.held_by[owner][node] += units
            return
        self._lacking = None
        gone: Mapping[tuple[int, Shape], int] = {}
        come: Mapping[tuple[int, Shape], int] = {}
        toggled: Cell | None = None
        while cell is not None:
            was_held, was_owned = bool(cell.held), cell.owned
            passes = cell.number < 0 and was_held and not was_owned  # its parts decide
            old = {} if passes else dict(self._given(cell))
            self._hold(cell, owner, level, units)
            if passes and (cell.owned or not cell.held):
                passes, old = False, dict(cell.inner)
            _shift(cell.inner, gone, -1)
            _shift(cell.inner, come, 1)
            if not passes:
                gone, come = old, self._given(cell)
            if cell.owned != was_owned:
                self.owner[cell.index] = self._number_of[owner] if cell.owned else _NOBODY
            if bool(cell.held) != was_held:
                toggled = cell
                unheld = self._unheld.get(cell.level)
                if unheld is not None:
                    unheld[cell.index] = was_held
            cell = cell.parent
        _shift(self._free, gone, -1)
        _shift(self._free, come, 1)
        self._name(self.nodes[node])
        if toggled is not None and toggled.number < 0:
            self._mark(toggled, ())  # a group around it is held, so not free

    def _hold(self, cell: Cell, owner: str, level: int, units: int) -> None:
        """Change what an owner holds in one cell."""
        before = cell.held.get(owner, 0)
        after = before + units
        if after > 0:
            cell.held[owner] = after
        else:
            cell.held.pop(owner, None)
        if cell.number >= 0 and owner in self.held_by:
            if after > 0:
                self.held_by[owner][cell.number] = after
            else:
                self.held_by[owner].pop(cell.number, None)
        if level < self.node_level and cell.level == self.node_level:
            sets = self._inside.sets(level, after)
            self._bound[owner] += sets - self._inside.sets(level, before)
            if owner in self.held_by:
                is_begun = 0 < after < sets * self._sizes[level] * CARD
                (self._begun[owner].add if is_begun else self._begun[owner].discard)(cell.number)
        elif cell.level == level:
            self._bound[owner] += (after > 0) - (before > 0)
        cell.owned = any(self.level_of(o) == cell.level for o in cell.held)

    def take_all(self, holdings: Sequence[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
        """Record these holdings (owner, node, units), in order. Returns those that the promises do
        not allow; they are not recorded.
        """
        lacked = self.lacking()
        for owner, node, units in holdings:
            self.take(owner, node, units)
        if self._are_apart(holdings) and self.lacking() == lacked:
            return []
        for owner, node, units in holdings:
            self.take(owner, node, -units)
        return [one for one in holdings if self.try_to_take(*one) is not None]

    def _are_apart(self, holdings: Sequence[tuple[str, int, int]]) -> bool:
        """Whether each holding is in a cell of its owner, and no owner holds more than its
        promise.
        """
        for owner in {owner for owner, _, _ in holdings}:
            promise = self.promises.get(owner)
            if promise is None or self._bound[owner] > promise.number:
                return False
        for owner, node, _ in holdings:
            level, inside = self.promises[owner].level, False
            cell: Cell | None = self.nodes[node]
            if level < self.node_level and not self.nodes[node].owned:
                inside = not self._is_too_full(self.nodes[node])
            while cell is not None:
                inside |= cell.level == level
                if cell.owned and len(cell.held) > 1:
                    return False
                cell = cell.parent
            if not inside:
                return False
        return True

    # -- free cells -----------------------------------------------------------------------------

    def _given(self, cell: Cell) -> Mapping[tuple[int, Shape], int]:
        """Return the largest free cells in a node or group, by level and shape."""
        if not cell.held:
            return {(cell.level, cell.shape): 1}
        if cell.owned:
            return {}
        if cell.number < 0:
            return cell.inner
        assert isinstance(cell.shape, int)
        sets = self._inside.free(cell.shape, cell.held)
        return {(level, 0): count for level, count in enumerate(sets) if count > 0}

    def _mark(self, cell: Cell, around: tuple[Shape, ...]) -> None:
        """Record for each node of a cell the free groups that contain the node. `around`: the
        shapes of the free groups that contain the whole cell.
        """
        if cell.number >= 0:
            nodes: int | npt.NDArray[np.int64] = cell.number
        else:
            around = () if cell.held else (*around, cell.shape)
            nodes = cell.own_nodes
            for part in cell.groups:
                self._mark(part, around)
        self._chain[nodes] = self._numbers.setdefault(around, len(self._numbers))
        self._broken[nodes] = len(around)

    def _name(self, node: Cell) -> None:
        """Record the cards of a node, and the sets of its cards that are bound."""
        key = (node.shape, tuple(self._inside.own(node.held)) if node.held else None)
        self._own_kind[node.number] = self._numbers.setdefault(key, len(self._numbers))


def _shift(
    counts: Counter[tuple[int, Shape]], by: Mapping[tuple[int, Shape], int], sign: int
) -> None:
    for key, count in by.items():
        counts[key] += sign * count
        if not counts[key]:
            del counts[key]
