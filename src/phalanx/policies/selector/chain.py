"""The selector: a chain of filters over the nodes, then packing, devices and common ports."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from phalanx.policies.selector.node import Amounts, SelectorNode
from phalanx.policies.selector.request import (
    Candidate,
    FilterName,
    NotSelected,
    Selection,
    SelectorConfig,
    SelectorRequest,
)
from phalanx.resources.ports import Ports, RandomSource, common_ports, pick_ports


def select(
    nodes: Sequence[SelectorNode],
    request: SelectorRequest,
    config: SelectorConfig,
    rng: RandomSource,
) -> Selection | NotSelected:
    """The candidates for one task of a role.

    Filters, in order: label, GPU type (only when some node has one), no CPU job on a GPU node,
    resources with ports, places tried before, rack. Then the fullest nodes first: available GPUs,
    total GPUs, available CPU, available memory, name; of these `waiting` x `candidate_factor`.
    """
    chain = _Chain(nodes)
    if request.label is not None:
        label = request.label.strip()
        chain.keep("label", lambda node: bool(node.labels) and node.labels[0].strip() == label)
    if request.gpu_type is not None and any(node.gpu_type for node in nodes):
        types = {word.strip() for word in request.gpu_type.split(",")}
        chain.keep("gpu_type", lambda node: node.gpu_type in types)
    job_gpus = request.amounts.gpus if request.job_gpus is None else request.job_gpus
    if not config.allow_cpu_jobs_on_gpu_nodes and job_gpus == 0:
        chain.keep("cpu_job_on_gpu_node", lambda node: node.total.gpus == 0)

    dynamic = _early_ports(chain.left, request, config, rng)
    fixed = request.static_ports | (dynamic or Ports())
    _filter_resources(chain, request, config, fixed)
    _filter_racks(chain, request, config)

    unresolved = request.dynamic_ports > 0 and dynamic is None
    if not chain.left:
        if request.gpu_type is not None:
            return NotSelected(lacking="gpu_type", turned_away=chain.turned_away)
        if unresolved:
            return NotSelected(lacking="ports", turned_away=chain.turned_away)
        return Selection(ports=fixed, turned_away=chain.turned_away)

    kept = sorted(chain.left, key=_packing_order)[: request.waiting * config.candidate_factor]
    overlap = common_ports(node.free_ports for node in kept)
    if unresolved:
        usable = overlap - request.static_ports
        dynamic = pick_ports(usable, request.dynamic_ports, config.min_dynamic_port, rng)
        if dynamic is None:
            return NotSelected(lacking="ports", turned_away=chain.turned_away)
    return Selection(
        candidates=tuple(_candidate(node, request, config) for node in kept),
        ports=request.static_ports | (dynamic or Ports()),
        overlap=overlap,
        turned_away=chain.turned_away,
    )


def pick_one(selection: Selection, rng: RandomSource | None = None) -> Candidate | None:
    """One candidate: the best one, or any of them with `rng`; None when there is none."""
    if not selection.candidates:
        return None
    return selection.candidates[rng.randrange(len(selection.candidates)) if rng else 0]


class _Chain:
    """The nodes that are left, and how many each filter turned away."""

    def __init__(self, nodes: Sequence[SelectorNode]) -> None:
        self.left = list(nodes)
        self.turned_away: dict[FilterName, int] = {}

    def keep(self, name: FilterName, test: Callable[[SelectorNode], bool]) -> None:
        kept = [node for node in self.left if test(node)]
        if len(kept) < len(self.left):
            self.turned_away[name] = len(self.left) - len(kept)
        self.left = kept


def _early_ports(
    nodes: Sequence[SelectorNode],
    request: SelectorRequest,
    config: SelectorConfig,
    rng: RandomSource,
) -> Ports | None:
    """Dynamic ports that every node left has free: then they bind no choice. None: try later."""
    if request.reused_ports:
        return request.reused_ports
    if not request.dynamic_ports:
        return Ports()
    usable = common_ports(node.free_ports for node in nodes) - request.static_ports
    return pick_ports(usable, request.dynamic_ports, config.min_dynamic_port, rng)


def _filter_resources(
    chain: _Chain, request: SelectorRequest, config: SelectorConfig, ports: Ports
) -> None:
    asked = request.amounts
    chain.keep("resources", lambda node: _fits(asked, node.available()))
    chain.keep("ports", lambda node: ports <= node.free_ports)
    if config.skip_tried:
        chain.keep("tried", lambda node: _fits(asked, node.available(skip_tried=True)))


def _filter_racks(chain: _Chain, request: SelectorRequest, config: SelectorConfig) -> None:
    if config.same_rack == "ignore" or not request.racks:
        return
    near = any(node.rack in request.racks for node in chain.left)
    if near or config.same_rack == "require":
        chain.keep("rack", lambda node: node.rack in request.racks)


def _fits(asked: Amounts, free: Amounts) -> bool:
    return (
        asked.memory_mb <= free.memory_mb
        and asked.cpu <= free.cpu
        and asked.gpus <= free.gpus
        and asked.mask & ~free.mask == 0
    )


def _packing_order(node: SelectorNode) -> tuple[int, int, int, int, str]:
    free = node.available()
    return (free.gpus, node.total.gpus, free.cpu, free.memory_mb, node.name)


def _candidate(node: SelectorNode, request: SelectorRequest, config: SelectorConfig) -> Candidate:
    mask = request.amounts.mask or node.choose_mask(request.amounts.gpus, config.skip_tried)
    return Candidate(node=node.name, mask=mask)
