"""The selector's chain: filters turn nodes away, and the fullest of the other nodes are the
candidates.

The order is that of OpenPAI's SelectionManager (microsoft/pai a95d9420). The chain reads columns of
nodes, so that the same code decides for tasks, actors and gangs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from phalanx.scheduler.devices.ports import RandomSource
from phalanx.scheduler.placement.node_table import Amounts, Flags
from phalanx.scheduler.placement.outcome import Filter
from phalanx.scheduler.placement.selector.settings import SelectorSettings


@dataclass(frozen=True, kw_only=True)
class Columns:
    """All nodes, one entry each, in the order of their names. `labelled`: whether the node has the
    requested labels. `typed`: whether it has the requested GPU type. `has_room`: whether it has
    room for the request. `is_untried`: whether it has room even if the amounts that it lately
    refused count as taken. `near`: whether it is in a rack where the job already runs; None if the
    job runs nowhere, or if racks do not matter.
    """

    labelled: Flags
    typed: Flags
    has_room: Flags
    is_untried: Flags
    total_gpus: Amounts
    free_gpus: Amounts
    free_cpu: Amounts
    free_memory: Amounts
    near: Flags | None = None

    def packing_order(self) -> npt.NDArray[np.intp]:
        """Return the rows, fullest node first. Nodes are ordered by free GPUs, then total GPUs,
        free CPU, free memory and name.
        """
        columns = (self.free_memory, self.free_cpu, self.total_gpus, self.free_gpus)
        return np.lexsort(columns)  # lexsort is stable, and its last key counts first


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The candidates that the chain of filters leaves. `rows`: the candidates, fullest first.
    `turned_away`: the nodes that each filter turned away, each node once. Nodes without room are
    not among these, because the request's class explains in full what they lack.
    """

    rows: tuple[int, ...]
    turned_away: dict[Filter, Flags]

    def draw(self, settings: SelectorSettings, rng: RandomSource) -> int | None:
        """Return one of the candidates: by the settings, a random one or the fullest. None if there
        is no candidate.
        """
        if len(self.rows) <= 1 or settings.pick == "fullest":
            return self.rows[0] if self.rows else None
        return self.rows[rng.randrange(len(self.rows))]


def select(
    nodes: Columns, settings: SelectorSettings, *, is_cpu_only: bool = False, waiting: int = 1
) -> Selection:
    """Return the candidates for one task.

    `is_cpu_only`: whether no task of the job requests a GPU. `waiting`: the number of waiting tasks
    like this one, including this one. The filters are, in order: labels, GPU type, GPU nodes for
    work without GPUs, room, recent refusals, rack. The fullest `waiting` × `candidate_factor` nodes
    that pass are kept.
    """
    chain = _Chain(len(nodes.labelled))
    chain.keep("labels", nodes.labelled)
    chain.keep("gpu type", nodes.typed)
    if is_cpu_only and not settings.allow_cpu_jobs_on_gpu_nodes:
        chain.keep("cpu only", nodes.total_gpus == 0)
    chain.left &= nodes.has_room
    if settings.skip_tried:
        chain.keep("tried", nodes.is_untried)
    near = nodes.near
    if near is not None and (settings.same_rack == "require" or (chain.left & near).any()):
        chain.keep("rack", near)
    order = nodes.packing_order()
    kept = order[chain.left[order]][: waiting * settings.candidate_factor]
    return Selection(rows=tuple(kept.tolist()), turned_away=chain.turned_away)


class _Chain:
    """The nodes that no filter has turned away so far, and those that each filter turned away."""

    def __init__(self, count: int) -> None:
        self.left: Flags = np.ones(count, np.bool_)
        self.turned_away: dict[Filter, Flags] = {}

    def keep(self, name: Filter, flags: Flags) -> None:
        away = self.left & ~flags
        if away.any():
            self.turned_away[name] = away
            self.left &= flags
