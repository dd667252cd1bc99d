"""The arguments of the plugin virtual-clusters, read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from phalanx.model.nearest import nearest
from phalanx.scheduler.cycle.arguments import Arguments, table
from phalanx.scheduler.plugin_parts.cells import Promise

CARD_LEVEL, NODE_LEVEL = "card", "node"
MOST_CELLS = 10**6
"""The largest number of cells that a queue may have."""
_LARGEST_SET = 256
"""The largest number of cards in a cell that is a part of a node."""


class CellSettings(NamedTuple):
    """The levels of cells, and the promises. `names`: the levels' names, smallest level first.
    `sizes`: the number of cards in a cell, for the levels inside nodes. `labels`: for the levels
    above nodes, the node labels that name the groups.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    labels: tuple[str, ...]
    promises: Mapping[str, Promise]


def read_cells(arguments: Arguments) -> CellSettings:
    """Return the settings in the arguments. Raises ValueError with the first fault."""
    sets: dict[int, str] = {1: CARD_LEVEL}
    groups = {"rack": "rack"}
    for name, given in table(arguments, "levels").items():
        if name in (CARD_LEVEL, NODE_LEVEL):
            raise ValueError(f"levels: {name} is a level already; leave it out")
        size = _whole(given)
        if size is None and isinstance(given, str) and given:
            groups[str(name)] = given
        elif size is None or not 1 < size <= _LARGEST_SET:
            raise ValueError(
                f"levels: {name} is a number of cards of a node, 2 to {_LARGEST_SET}, or the label "
                f"of a group of nodes, not {given!r}"
            )
        elif size in sets:
            raise ValueError(f"levels: {sets[size]} and {name} have {size} cards both")
        else:
            sets[size] = str(name)
    sizes = sorted(sets)
    for small, large in pairwise(sizes):
        if large % small:
            fault = f"{sets[large]} ({large} cards) is not a multiple of {sets[small]} ({small})"
            raise ValueError(f"levels: {fault}")
    names = (*(sets[size] for size in sizes), NODE_LEVEL, *groups)
    promises = {
        str(queue): _promise(str(queue), given, names)
        for queue, given in table(arguments, "cells").items()
        if given is not None
    }
    return CellSettings(names, tuple(sizes), tuple(groups.values()), promises)


def fault_of(arguments: Arguments) -> str:
    """Return what is wrong with the arguments; "" if nothing is."""
    try:
        read_cells(arguments)
    except ValueError as error:
        return str(error)
    return ""


def _promise(queue: str, given: Any, names: tuple[str, ...]) -> Promise:
    if not isinstance(given, dict) or len(given) != 1:
        raise ValueError(
            f"cells: queue {queue} has one level with a number, such as {{node: 2}}, not {given!r}"
        )
    ((level, count),) = given.items()
    if level not in names:
        raise ValueError(
            f"cells: queue {queue}: there is no level {level!r}; known are {', '.join(names)}"
            f"{nearest(str(level), names)}"
        )
    number = _whole(count)
    if number is None or not 0 <= number <= MOST_CELLS:
        raise ValueError(
            f"cells: queue {queue}: {level} is a whole number up to {MOST_CELLS}, not {count!r}"
        )
    return Promise(names.index(level), number)


def _whole(given: Any) -> int | None:
    return given if isinstance(given, int) and not isinstance(given, bool) else None
