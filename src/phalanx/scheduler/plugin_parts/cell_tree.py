"""The tree of nodes and groups of nodes for `cells`, and the shapes of its parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Shape: TypeAlias = "int | tuple[tuple[tuple[int, Shape], int], ...]"
"""The shape of a node is its number of cards. The shape of a group has, for each level and shape of
its parts, the number of these parts.
"""


_NOTHING: Counter[tuple[int, Shape]] = Counter()
_NO_NODES: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)


class Place(NamedTuple):
    """A node: the number of its cards, and the name of its group on each level, smallest groups
    first; "" where it is in no group.
    """

    cards: int
    groups: tuple[str, ...] = ()


class Cell:
    """A node or a group. `held`: the units that each owner holds inside of it. `owned`: whether the
    whole cell is bound to an owner. `number`: the node's index; -1 for a group. `inner`: the
    largest free cells of its parts, by level and shape. `index`: the indexes of its nodes.
    `own_nodes`: the indexes of its nodes that are in no smaller group within it. `groups`: the
    groups among its parts.
    """

    __slots__ = (
        "groups", "held", "index", "inner", "level", "number", "own_nodes", "owned", "parent",
        "shape",
    )  # fmt: skip

    def __init__(self, level: int, shape: Shape = 0, number: int = -1) -> None:
        self.level = level
        self.number = number
        self.shape = shape
        self.parent: Cell | None = None
        self.groups: Sequence[Cell] = ()
        self.held: dict[str, int] = {}
        self.owned = False
        self.inner = _NOTHING
        self.index: int | npt.NDArray[np.int64] = number
        self.own_nodes = _NO_NODES


def build(places: Sequence[Place], node_level: int) -> tuple[list[Cell], list[Cell]]:
    """Return the nodes, and the groups around them. Smaller groups come first."""
    nodes = [Cell(node_level, place.cards, number) for number, place in enumerate(places)]
    alike: dict[tuple[str, ...], list[Cell]] = {}
    for node, place in zip(nodes, places, strict=True):
        alike.setdefault(place.groups, []).append(node)
    groups: dict[tuple[str, ...], Cell] = {}
    members: dict[Cell, list[int]] = {}
    parts: dict[Cell, list[Cell]] = {}
    for names, some in alike.items():
        numbers = [node.number for node in some]
        inner = some
        for i, name in enumerate(names):
            if not name:
                continue
            found = groups.get(names[i:])
            if found is None:
                found = groups[names[i:]] = Cell(node_level + 1 + i)
            if inner[0].parent is None:
                for part in inner:
                    part.parent = found
                parts.setdefault(found, []).extend(inner)
            members.setdefault(found, []).extend(numbers)
            inner = [found]
    listed = sorted(groups.values(), key=lambda cell: cell.level)
    for group in listed:
        group.index = np.array(members[group], dtype=np.int64)
        own = [part.number for part in parts[group] if part.number >= 0]
        group.own_nodes = np.array(own, dtype=np.int64)
        group.groups = [part for part in parts[group] if part.number < 0]
        group.inner = Counter((part.level, part.shape) for part in parts[group])
        group.shape = tuple(sorted(group.inner.items(), key=repr))
    return nodes, listed


@cache
def cards_of(shape: Shape) -> int:
    """Return the number of cards in a node or a group of this shape."""
    if isinstance(shape, int):
        return shape
    return sum(cards_of(part) * times for (_, part), times in shape)


@cache
def order(shape: Shape) -> tuple[int, str]:
    """Return a sort key: shapes with fewer cards come first."""
    return cards_of(shape), repr(shape)
