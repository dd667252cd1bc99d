"""The selector's chain: filters over the nodes, then packing, and ports that candidates share.

The order is that of OpenPAI's SelectionManager (microsoft/pai a95d9420). Nodes come as columns, so
that tasks, actors and gangs are decided by this one text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from phalanx.policies.node_table import Amounts, Flags
from phalanx.policies.outcome import Filter
from phalanx.policies.selector.settings import SelectorSettings
from phalanx.resources.ports import Ports, RandomSource, common_ports, pick_ports


@dataclass(frozen=True, kw_only=True)
class Columns:
    """All nodes, one entry each, in order of their names.

    `labelled` and `typed`: has the labels, and the GPU type, that are asked for. `has_room`: for
    the request; `is_untried`: also when what was asked for there in vain counts as taken. `near`:
    in a rack where the job is already; None when it is nowhere, or racks do not matter. `ports`:
    those that are free on each node; None where nobody asks for any.
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
    ports: Sequence[Ports] | None = None

    def packing_order(self) -> npt.NDArray[np.intp]:
        """Rows, the fullest node first: by free GPUs, total GPUs, free CPU, free memory, name."""
        columns = (self.free_memory, self.free_cpu, self.total_gpus, self.free_gpus)
        return np.lexsort(columns)  # stable, and the last column counts first


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What one task asks for beside room, labels and GPU type.

    `is_cpu_only`: the whole job asks for no GPU. `waiting`: tasks like it that wait, this one
    included. `static_ports` must be free; `dynamic_ports` so many more are to be picked, unless
    `reused_ports` names those that an earlier task of the job got.
    """

    is_cpu_only: bool = False
    waiting: int = 1
    static_ports: Ports = field(default_factory=Ports)
    dynamic_ports: int = 0
    reused_ports: Ports = field(default_factory=Ports)


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What the chain leaves.

    `rows`: the candidates, the fullest first. `ports`: static and dynamic ones together, free on
    every candidate; None when they lack: then there is no candidate. `overlap`: all ports that are
    free on every candidate. `turned_away`: whom each filter turned away, a node once; lack of room
    is left out, which a request's class explains in full.
    """

    rows: tuple[int, ...] = ()
    ports: Ports | None = None
    overlap: Ports = field(default_factory=Ports)
    turned_away: dict[Filter, Flags]

    def draw(self, rng: RandomSource) -> int | None:
        """Any of the candidates, each as likely; None when there is none."""
        if len(self.rows) <= 1:
            return self.rows[0] if self.rows else None
        return self.rows[rng.randrange(len(self.rows))]


def select(
    nodes: Columns, wanted: Wanted, settings: SelectorSettings, rng: RandomSource
) -> Selection:
    """The candidates for one task.

    Filters, in order: labels, GPU type, no work without GPUs where GPUs are, room, ports, what was
    tried before, rack. The fullest nodes are kept, `waiting` x `candidate_factor` of them. Dynamic
    ports are those that are free on every node that the first three filters leave, so that they
    bind no choice; where there are too few of these, those that are free on every candidate.
    """
    chain = _Chain(len(nodes.labelled))
    chain.keep("labels", nodes.labelled)
    chain.keep("gpu type", nodes.typed)
    if wanted.is_cpu_only and not settings.allow_cpu_jobs_on_gpu_nodes:
        chain.keep("cpu only", nodes.total_gpus == 0)
    ports = nodes.ports or ()
    dynamic = _early_ports(chain.free(ports), wanted, settings, rng)
    fixed = wanted.static_ports | (dynamic or Ports())
    chain.left &= nodes.has_room
    if fixed:
        chain.keep("ports", np.array([fixed <= free for free in ports], np.bool_))
    if settings.skip_tried:
        chain.keep("tried", nodes.is_untried)
    near = nodes.near
    if near is not None and (settings.same_rack == "require" or (chain.left & near).any()):
        chain.keep("rack", near)

    order = nodes.packing_order()
    kept = order[chain.left[order]][: wanted.waiting * settings.candidate_factor]
    overlap = common_ports(ports[row] for row in kept) if ports else Ports()
    if dynamic is None:
        usable = overlap - wanted.static_ports
        dynamic = pick_ports(usable, wanted.dynamic_ports, settings.min_dynamic_port, rng)
        if dynamic is None:
            return Selection(turned_away=chain.turned_away)
    return Selection(
        rows=tuple(kept.tolist()),
        ports=wanted.static_ports | dynamic,
        overlap=overlap,
        turned_away=chain.turned_away,
    )


class _Chain:
    """The nodes that are left, and whom each filter turned away."""

    def __init__(self, count: int) -> None:
        self.left: Flags = np.ones(count, np.bool_)
        self.turned_away: dict[Filter, Flags] = {}

    def keep(self, name: Filter, flags: Flags) -> None:
        away = self.left & ~flags
        if away.any():
            self.turned_away[name] = away
            self.left &= flags

    def free(self, ports: Sequence[Ports]) -> list[Ports]:
        """The free ports of the nodes that are left."""
        return [free for free, is_left in zip(ports, self.left, strict=False) if is_left]


def _early_ports(
    free: Sequence[Ports], wanted: Wanted, settings: SelectorSettings, rng: RandomSource
) -> Ports | None:
    """Dynamic ports that every node left has free; None: those of the candidates must do."""
    if wanted.reused_ports:
        return wanted.reused_ports
    if not wanted.dynamic_ports:
        return Ports()
    usable = common_ports(free) - wanted.static_ports
    return pick_ports(usable, wanted.dynamic_ports, settings.min_dynamic_port, rng)
