"""Cells: parts of a cluster's topology that are promised to owners and bound to places on demand.

The levels of cells are, from the smallest: sets of cards of one node, whole nodes, and groups of
nodes. Each owner is promised a number of cells of one level. A cell is bound to an owner while the
owner holds a card in it, and nobody else may then hold a card there. All other cells stay unbound,
so a promise is for any free cell of the level. As in buddy allocation, a cell is split into the
cells of the next level when one of its parts is bound, and it is whole again once nothing in it is
held.

`fault` checks the rule of safety: nobody may take a card if afterwards the free cells would cover
fewer of the promises that are not bound yet. Therefore the promises can be kept wherever others run
their work. If the cluster is too small for all promises, for example because nodes broke, nobody
may make the lack larger.

Cards inside a node are only counted: a cell of four cards is any four cards of the node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

CARD = 1000
"""The units of one card in which holdings are counted, so that a card can be shared."""
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

Kinds: TypeAlias = npt.NDArray[np.int64]
"""The kind of each node, as a number."""
Shape: TypeAlias = "int | tuple[tuple[tuple[int, Shape], int], ...]"
"""For a node: its number of cards. For a group: the levels and shapes of its parts, with their
counts.
"""


class Promise(NamedTuple):
    """A level, and the number of its cells that are promised."""

    level: int
    number: int


class Place(NamedTuple):
    """A node: its number of cards, and the names of its groups, smallest group first ("" for no
    group).
    """

    cards: int
    groups: tuple[str, ...] = ()


class _Cell:
    """A node or a group. `held`: the units that each owner holds inside it. `number`: the node's
    index; -1 for a group.
    """

    __slots__ = ("held", "level", "number", "parent", "parts", "shape")

    def __init__(self, level: int, shape: Shape = 0, number: int = -1) -> None:
        self.level = level
        self.number = number
        self.shape = shape
        self.parent: _Cell | None = None
        self.parts: list[_Cell] = []
        self.held: dict[str, int] = {}

    def root(self) -> _Cell:
        return self if self.parent is None else self.parent.root()


class _Free(NamedTuple):
    """The largest free cells: nodes and groups by level and shape, and sets of cards by level."""

    whole: Counter[tuple[int, Shape]]
    inside: list[int]


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
        self._node_level = len(sizes)
        self._promises = dict(promises)
        groups = max((len(place.groups) for place in places), default=0)
        highest = max((promise.level for promise in promises.values()), default=0)
        self._levels = 1 + max(self._node_level + groups, highest)
        self._nodes = [
            _Cell(self._node_level, place.cards, number) for number, place in enumerate(places)
        ]
        roots = self._build(places)
        self._bound: Counter[str] = Counter()
        """The number of cells that are bound to each owner."""
        self._free_of: dict[_Cell, _Free] = {}
        self._free = _Free(Counter(), [0] * self._node_level)
        self._kinds: Kinds = np.zeros(len(places), dtype=np.int64)
        self._kind_of: dict[object, int] = {}
        self._stale = set(roots)
        """The outermost cells in which something was taken since their free cells were last
        counted.
        """

    def _build(self, places: Sequence[Place]) -> list[_Cell]:
        """Make the groups around the nodes. Returns the outermost cells."""
        groups: dict[tuple[str, ...], _Cell] = {}
        roots = []
        for node, place in zip(self._nodes, places, strict=True):
            inner = node
            for i, name in enumerate(place.groups):
                if not name:
                    continue
                found = groups.get(place.groups[i:])
                known = found is not None
                if found is None:
                    level = self._node_level + 1 + i
                    found = groups[place.groups[i:]] = _Cell(level)
                inner.parent = found
                found.parts.append(inner)
                inner = found
                if known:
                    break
            else:
                roots.append(inner)
        for group in sorted(groups.values(), key=lambda cell: cell.level):
            parts = Counter((part.level, part.shape) for part in group.parts)
            group.shape = tuple(sorted(parts.items(), key=repr))
        return roots

    # -- questions ------------------------------------------------------------------------------

    def bound(self, owner: str) -> int:
        """Return the number of cells that are bound to an owner."""
        return self._bound[owner]

    def is_bound(self, owner: str, node: int) -> bool:
        """Whether a node is inside a cell that is bound to an owner, or contains such a cell."""
        level = self._level_of(owner)
        cell: _Cell | None = self._nodes[node]
        while cell is not None and cell.level < level:
            cell = cell.parent
        return cell is not None and owner in cell.held

    def lacking(self) -> list[int]:
        """Return, for each level, how many promised cells are neither bound nor covered by a free
        cell.
        """
        wanted = [0] * self._levels
        for owner, promise in self._promises.items():
            wanted[promise.level] += max(0, promise.number - self._bound[owner])
        self._refresh()
        lacking = [0] * self._levels
        whole: list[Counter[Shape]] = [Counter() for _ in range(self._levels)]
        for (level, shape), count in self._free.whole.items():
            whole[level][shape] += count
        inside = list(self._free.inside)
        for level in reversed(range(self._node_level, self._levels)):
            need = wanted[level]
            with_cards = [shape for shape in whole[level] if _cards(shape)]
            for shape in sorted(with_cards, key=_order):  # the smallest are set aside first
                kept = min(need, whole[level][shape])
                need -= kept
                self._split(shape, whole[level][shape] - kept, whole, inside)
            lacking[level] = need
        rest = 0
        for level in reversed(range(self._node_level)):
            there = inside[level] + rest - wanted[level]
            lacking[level] = max(0, -there)
            if level:
                rest = max(0, there) * (self._sizes[level] // self._sizes[level - 1])
        return lacking

    def _split(
        self, shape: Shape, count: int, whole: list[Counter[Shape]], inside: list[int]
    ) -> None:
        if isinstance(shape, int):
            for level, sets in enumerate(self._free_inside(shape, {})):
                inside[level] += sets * count
        else:
            for (level, part), times in shape:
                whole[level][part] += times * count

    def fault(self, owner: str, node: int, units: int) -> str | None:
        """Return why an owner may not take this many units of a node's cards; None if it may."""
        promise = self._promises.get(owner)
        if promise is None or not self._nodes[node].shape:
            return OUTSIDE
        cell: _Cell | None = self._nodes[node]
        around = None
        while cell is not None:
            if self._owner(cell) not in (None, owner):
                return BOUND_TO_OTHERS
            if cell.level == promise.level:
                around = cell
            cell = cell.parent
        if promise.level >= self._node_level:
            if around is None:
                return OUTSIDE
            if owner in around.held:
                return None
            if around.held:
                return BOUND_TO_OTHERS
        return self._try(owner, node, units, promise)

    def _try(self, owner: str, node: int, units: int, promise: Promise) -> str | None:
        """Return why the promises do not allow the owner to take the units. The units are taken for
        a moment to find out.
        """
        before, lacked = self._bound[owner], self.lacking()
        self.take(owner, node, units)
        try:
            if self._bound[owner] == before:
                return None
            if self._bound[owner] > promise.number:
                return ALL_BOUND
            if promise.level < self._node_level and self._is_too_full(self._nodes[node]):
                return BOUND_TO_OTHERS
            worse = any(a > b for a, b in zip(self.lacking(), lacked, strict=True))
            return PROMISED if worse else None
        finally:
            self.take(owner, node, -units)

    def _is_too_full(self, node: _Cell) -> bool:
        assert isinstance(node.shape, int)
        return min(self._free_inside(node.shape, node.held)) < 0

    def faults(self, owner: str, units: int) -> tuple[Kinds, list[str | None], list[bool]]:
        """Return the kind of each node, and for each kind the results of `fault` and `is_bound`.
        They are the same for all nodes of a kind, and there are few kinds.
        """
        self._refresh()
        _, first, kinds = np.unique(self._kinds, return_index=True, return_inverse=True)
        nodes = first.tolist()
        faults = [self.fault(owner, node, units) for node in nodes]
        return kinds, faults, [self.is_bound(owner, node) for node in nodes]

    # -- holdings -------------------------------------------------------------------------------

    def take(self, owner: str, node: int, units: int) -> None:
        """Record that an owner holds more units of a node's cards or, with a negative number,
        fewer.
        """
        cell: _Cell | None = self._nodes[node]
        level = self._level_of(owner)
        while cell is not None:
            before = cell.held.get(owner, 0)
            after = before + units
            if after > 0:
                cell.held[owner] = after
            else:
                cell.held.pop(owner, None)
            if level < self._node_level and cell.level == self._node_level:
                self._bound[owner] += self._sets(level, after) - self._sets(level, before)
            elif cell.level == level:
                self._bound[owner] += (after > 0) - (before > 0)
            cell = cell.parent
        self._stale.add(self._nodes[node].root())

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
        refused = []
        for owner, node, units in holdings:
            if self.fault(owner, node, units) is None:
                self.take(owner, node, units)
            else:
                refused.append((owner, node, units))
        return refused

    def _are_apart(self, holdings: Sequence[tuple[str, int, int]]) -> bool:
        """Whether all holdings are in their owners' cells, within the promises."""
        for owner in {owner for owner, _, _ in holdings}:
            promise = self._promises.get(owner)
            if promise is None or self._bound[owner] > promise.number:
                return False
        for owner, node, _ in holdings:
            level, inside = self._promises[owner].level, False
            cell: _Cell | None = self._nodes[node]
            if level < self._node_level and self._owner(self._nodes[node]) is None:
                inside = not self._is_too_full(self._nodes[node])
            while cell is not None:
                inside |= cell.level == level
                if self._owner(cell) is not None and len(cell.held) > 1:
                    return False
                cell = cell.parent
            if not inside:
                return False
        return True

    def _level_of(self, owner: str) -> int:
        promise = self._promises.get(owner)
        return 0 if promise is None else promise.level

    def _owner(self, cell: _Cell) -> str | None:
        """Return the owner to which the whole of a node or group is bound."""
        return next((o for o in cell.held if self._level_of(o) == cell.level), None)

    def _sets(self, level: int, units: int) -> int:
        return -(-units // (self._sizes[level] * CARD))

    # -- free cells -----------------------------------------------------------------------------

    def _refresh(self) -> None:
        """Count the free cells of those outermost cells again in which something changed."""
        for root in self._stale:
            self._count(root)
        self._stale.clear()

    def _count(self, root: _Cell) -> None:
        old = self._free_of.get(root)
        new = self._free_of[root] = _Free(Counter(), [0] * self._node_level)
        self._find(root, new)
        self._sort(root, ())
        if old is not None:
            self._free.whole.subtract(old.whole)
        self._free.whole.update(new.whole)
        for level, sets in enumerate(new.inside):
            self._free.inside[level] += sets - (0 if old is None else old.inside[level])

    def _sort(self, cell: _Cell, around: tuple[object, ...]) -> None:
        """Give each node inside a cell its kind. Nodes of a kind have equal holdings, and are in
        the same groups or in free groups of equal shape.
        """
        if cell.number < 0:
            inner = (*around, cell if cell.held else cell.shape)
            for part in cell.parts:
                self._sort(part, inner)
        else:
            kind = (cell.shape, tuple(sorted(cell.held.items())), around)
            self._kinds[cell.number] = self._kind_of.setdefault(kind, len(self._kind_of))

    def _find(self, cell: _Cell, free: _Free) -> None:
        if not cell.held:
            free.whole[cell.level, cell.shape] += 1
        elif self._owner(cell) is not None:
            return
        elif isinstance(cell.shape, int):
            for level, sets in enumerate(self._free_inside(cell.shape, cell.held)):
                free.inside[level] += max(0, sets)
        for part in cell.parts if cell.held else ():
            self._find(part, free)

    def _free_inside(self, cards: int, held: Mapping[str, int]) -> list[int]:
        """Return, for each level inside a node, how many of the largest free sets of its cards have
        this level. A negative number means that the node has fewer cards than are held.
        """
        own = [0] * self._node_level
        for owner, units in held.items():
            level = self._level_of(owner)
            own[level] += self._sets(level, units)
        opened = 0
        touched = []
        for level, size in enumerate(self._sizes):
            if level:  # cards that fill no whole set are taken first
                small = self._sizes[level - 1]
                opened = -(-max(0, opened - cards % size // small) * small // size)
            opened += own[level]
            touched.append(opened)
        free = [0] * self._node_level
        above = 0
        for level in reversed(range(self._node_level)):
            size = self._sizes[level]
            free[level] = cards // size - above // size - touched[level]
            above += (own[level] + max(0, free[level])) * size
        return free


@cache
def _cards(shape: Shape) -> int:
    if isinstance(shape, int):
        return shape
    return sum(_cards(part) * times for (_, part), times in shape)


def _order(shape: Shape) -> tuple[int, str]:
    return _cards(shape), repr(shape)
