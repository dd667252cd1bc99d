"""The selector as a placement strategy for tasks and actors. It reads the view of a live
cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from phalanx.scheduler.devices.ports import RandomSource
from phalanx.scheduler.devices.sets import EMPTY, ResourceSet
from phalanx.scheduler.placement.labels import LabelSelector
from phalanx.scheduler.placement.node_table import Flags
from phalanx.scheduler.placement.outcome import GPU_TYPE_RESOURCE, Outcome
from phalanx.scheduler.placement.request_class import ClusterView, Request
from phalanx.scheduler.placement.selector.chain import Columns, Selection, select
from phalanx.scheduler.placement.selector.settings import (
    GPU_TYPE_LABEL,
    SelectorSettings,
)
from phalanx.scheduler.placement.strategy import Asking, excluded_rows, placed, reject


@dataclass(frozen=True, kw_only=True)
class Selector:
    """The strategy that takes a random one of the fullest nodes that pass the chain of filters.

    If no node has room now, the request waits for the fullest node that could take it. A request
    for no resources goes to any node that passes, because it would never fill a node.
    """

    settings: SelectorSettings = field(default_factory=SelectorSettings)

    def pick(
        self, view: ClusterView, request: Request, asking: Asking, rng: RandomSource
    ) -> Outcome:
        """Pick a node by the rules of this strategy."""
        found = self._select(view, request, asking, now=True)
        row = found.draw(self.settings, rng)
        if row is not None:
            return placed(view, row, True)
        later = self._select(view, request, asking, now=False).rows
        if later and not asking.require_available:
            return placed(view, later[0], False)
        no = reject(view, request, asking, found.turned_away)
        return replace(no, reason="unavailable" if later else "infeasible")

    def _select(
        self, view: ClusterView, request: Request, asking: Asking, *, now: bool
    ) -> Selection:
        return select(
            columns(view, request, asking, self.settings, now=now),
            self.settings,
            is_cpu_only=not request.resources.get("GPU", 0),
            waiting=asking.waiting if request.resources else max(1, len(view.nodes)),
        )


def columns(
    view: ClusterView, request: Request, asking: Asking, settings: SelectorSettings, *, now: bool
) -> Columns:
    """Return the chain's columns. With `now`, a node's room is its free room; otherwise it is the
    room of the empty node.
    """
    nodes = view.nodes
    plain, typed = _apart(request.selector)
    types = ResourceSet(
        {name: units for name, units in request.resources.items() if _is_gpu_type(name)}
    )
    known = view.of(replace(request, selector=LabelSelector()))
    has_room = (known.available if now else known.feasible).copy()
    has_room[excluded_rows(view, asking)] = False
    is_untried = has_room.copy()
    for node in asking.tried if now else ():
        row = nodes.row_of.get(node)
        if row is not None and has_room[row]:
            is_untried[row] = known.has_room_beside(row, asking.tried[node])
    near: Flags | None = None
    if asking.beside and settings.same_rack != "ignore":
        racks = [state.labels.get(settings.rack_label) for state in nodes.states]
        rows = (nodes.row_of.get(node) for node in asking.beside)
        own = {racks[row] for row in rows if row is not None} - {None}
        near = np.array([rack in own for rack in racks], np.bool_) if own else None
    return Columns(
        labelled=view.of(Request(resources=EMPTY, selector=plain)).feasible,
        typed=view.of(Request(resources=types, selector=typed)).feasible,
        has_room=has_room,
        is_untried=is_untried,
        total_gpus=nodes.column(nodes.total, "GPU"),
        free_gpus=nodes.column(nodes.available, "GPU"),
        free_cpu=nodes.column(nodes.available, "CPU"),
        free_memory=nodes.column(nodes.available, "memory"),
        near=near,
    )


def _apart(selector: LabelSelector) -> tuple[LabelSelector, LabelSelector]:
    """Return the conditions of a selector in two parts: those that do not concern the type of GPU,
    then those that do.
    """
    typed = tuple(one for one in selector.conditions if one.key == GPU_TYPE_LABEL)
    plain = tuple(one for one in selector.conditions if one.key != GPU_TYPE_LABEL)
    return LabelSelector(plain), LabelSelector(typed)


def _is_gpu_type(name: str) -> bool:
    return name.startswith(GPU_TYPE_RESOURCE)
