"""The interface of strategies. A strategy chooses a node for a request, under the terms of its
asker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from phalanx.scheduler.devices.ports import RandomSource
from phalanx.scheduler.devices.sets import ResourceSet
from phalanx.scheduler.placement.node_table import Flags
from phalanx.scheduler.placement.outcome import Filter, Outcome, Placed, Rejection
from phalanx.scheduler.placement.request_class import ClusterView, Request

ENTRY_POINT_GROUP = "phalanx.strategies"


@dataclass(frozen=True, kw_only=True)
class Asking:
    """The terms of a request's asker.

    `local`: the node that decides. `preferred`: the node that is taken if no other is better.
    `require_available`: whether nodes are excluded on which the request would have to wait.
    `avoid_local`: whether the local node is skipped, because its queue is being emptied.
    `argument_bytes`: the bytes of all large arguments. `held_bytes`: how many of these bytes each
    node holds. `waiting`: the number of waiting requests like this one, including this one.
    `tried`: the amounts that nodes lately did not give to the asker. `beside`: the nodes where the
    asker's job already runs.
    """

    local: str | None = None
    preferred: str | None = None
    require_available: bool = False
    avoid_local: bool = False
    argument_bytes: int = 0
    held_bytes: Mapping[str, int] = field(default_factory=dict)
    waiting: int = 1
    tried: Mapping[str, ResourceSet] = field(default_factory=dict)
    beside: frozenset[str] = frozenset()


class Strategy(Protocol):
    """Chooses a node. Built-in strategies and strategies of users have the same interface.
    docs/explanation/placement.md shows how to write a strategy.
    """

    def pick(
        self, view: ClusterView, request: Request, asking: Asking, rng: RandomSource
    ) -> Outcome:
        """Return a node for `request`, or the reasons why none was found. Nothing is reserved."""


NOBODY_ELSE: Mapping[Filter, Flags] = {}
NOBODY = Asking()
"""An asker without terms, for whom no node is local or preferred."""


def reject(
    view: ClusterView,
    request: Request,
    asking: Asking,
    turned_away: Mapping[Filter, Flags] = NOBODY_ELSE,
) -> Rejection:
    """Return the rejection of a strategy that found no node. It has the number of nodes that each
    filter turned away. `turned_away`: for each filter of the strategy's own, a mask of the nodes
    that it turned away.
    """
    excluded = np.zeros(len(view.nodes), np.bool_)
    excluded[excluded_rows(view, asking)] = True
    return view.of(request).rejection({"excluded": excluded, **turned_away})


def excluded_rows(view: ClusterView, asking: Asking) -> list[int]:
    """Return the row of the local node if that node must be skipped; otherwise no row."""
    if asking.avoid_local and asking.local in view.nodes.row_of:
        return [view.nodes.row_of[asking.local]]
    return []


def placed(view: ClusterView, row: int, is_available: bool) -> Placed:
    """Return the outcome that the node in this row was chosen. `is_available`: whether the node has
    room now; otherwise the request waits there.
    """
    return Placed(node=view.nodes.states[row].id, is_available=is_available)


def load_strategy(name: str) -> Callable[..., Any]:
    """Return the factory that a distribution offers as entry point `name` of `phalanx.strategies`.

    Raises ValueError, with the installed names, if no strategy has that name.
    """
    from importlib.metadata import entry_points  # slow to import and rarely needed

    found = {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
    if name not in found:
        known = ", ".join(sorted(found)) or "none is installed"
        raise ValueError(f"unknown placement strategy {name!r}; installed by entry points: {known}")
    factory = found[name].load()
    if not callable(factory):
        raise ValueError(f"entry point {name!r} of {ENTRY_POINT_GROUP} is not callable")
    return factory  # type: ignore[no-any-return]
