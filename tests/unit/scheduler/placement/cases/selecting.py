"""The table of the selector: scenarios of its chain of filters, masks of devices, and ranges of
ports.

Nodes and requests are translated to what the policy of the live cluster reads. The answers are
those of the product's functions: `columns` and `select` choose nodes, `settle_ports` finds ports,
and devices are taken as a node takes them.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from phalanx.scheduler.devices.devices import LowestIndex, take
from phalanx.scheduler.devices.ports import Ports, common_ports, settle_ports
from phalanx.scheduler.devices.quantities import SCALE
from phalanx.scheduler.devices.sets import ResourceSet
from phalanx.scheduler.placement.labels import parse_selector
from phalanx.scheduler.placement.node_table import NodeState, NodeTable
from phalanx.scheduler.placement.request_class import ClusterView, Request
from phalanx.scheduler.placement.selector.chain import select
from phalanx.scheduler.placement.selector.settings import GPU_TYPE_LABEL, SelectorSettings
from phalanx.scheduler.placement.selector.strategy import columns
from phalanx.scheduler.placement.strategy import Asking

from .schema import (
    MaskRow,
    RangeRow,
    Scenario,
    SelectorConfig,
    SelectorExpect,
    SelectorNode,
    SelectorRequest,
    SelectorTable,
)


class Reserved(msgspec.Struct):
    """The amounts that were taken from a node after its report."""

    mem: int = 0
    cpu: int = 0
    mask: int = 0


def mask_choice(row: MaskRow) -> int:
    """Return the devices that a node without known wiring takes, as a mask."""
    return _mask_of(_devices(row.total & ~row.used), row.want)


def ports(row: RangeRow) -> list[tuple[int, int]]:
    """Return the ranges of ports that result from joining, cutting or subtracting ranges."""
    a, b = Ports.of(row.a), Ports.of(row.b)
    got = {"coalesce": a, "intersect": a & b, "subtract": a - b}[row.op]
    return list(got.ranges)


def answers(
    scenario: Scenario, table: SelectorTable
) -> list[tuple[SelectorExpect, SelectorExpect]]:
    """Return (expected, actual) of each step, with only the fields that the step expects."""
    settings = _settings(table.config, scenario.config)
    nodes: dict[str, SelectorNode] = {}
    reserved: dict[str, Reserved] = {}
    tried: dict[str, ResourceSet] = {}
    found = []
    for step in scenario.steps:
        nodes.update(step.add)
        for name, (mem, cpu, gpus) in step.tried.items():
            tried[name] = ResourceSet.from_mapping({"memory": mem, "CPU": cpu, "GPU": gpus})
        states = [_state(name, node, reserved.get(name)) for name, node in nodes.items()]
        asked = step.request
        got = _select(states, nodes, asked, scenario.job_total_gpu, tried, settings)
        is_within = got.pop("dynamic") <= Ports.of(step.expect.dynamic_within or ())
        got["dynamic_within"] = step.expect.dynamic_within if is_within else []
        told = {key: got[key] for key in got if getattr(step.expect, key) is not None}
        wanted = msgspec.structs.replace(step.expect, nodes=sorted(step.expect.nodes))
        found.append((wanted, SelectorExpect(**told)))
        for name, (mem, cpu, _, mask) in step.reserve.items():
            mine = reserved.setdefault(name, Reserved())
            mine.mem, mine.cpu, mine.mask = mine.mem + mem, mine.cpu + cpu, mine.mask | mask
    return found


def _select(
    states: list[NodeState],
    nodes: dict[str, SelectorNode],
    asked: SelectorRequest,
    job_gpus: int | None,
    tried: dict[str, ResourceSet],
    settings: SelectorSettings,
) -> dict[str, Any]:
    view = ClusterView(NodeTable(states))
    request = Request(
        resources=ResourceSet.from_mapping(
            {"memory": asked.mem, "CPU": asked.cpu, "GPU": asked.gpu}
        ),
        selector=parse_selector(_labels_asked(asked, nodes)),
    )
    beside = {name for name, node in nodes.items() if node.rack in asked.racks}
    terms = Asking(tried=tried, beside=frozenset(beside))
    rows = columns(view, request, terms, settings, now=True)
    order = [state.id for state in view.nodes.states]
    static, reused = Ports.of(asked.static_ports), list(Ports.of(asked.reused_ports))
    offered = [Ports.of(nodes[name].ports) - Ports.of(nodes[name].used_ports) for name in order]
    fixed = static | Ports.of(asked.reused_ports)
    has_ports = np.array([fixed <= free for free in offered], np.bool_)
    is_cpu_only = not (asked.gpu if job_gpus is None else job_gpus)
    roomy = replace(rows, has_room=rows.has_room & has_ports)
    found = select(roomy, settings, is_cpu_only=is_cpu_only, waiting=asked.waiting)
    kept = list(found.rows)
    anywhere = np.ones(len(order), np.bool_)
    alike = replace(rows, has_room=anywhere, is_untried=anywhere, near=None)
    every = select(alike, settings, is_cpu_only=is_cpu_only, waiting=len(order) + 1).rows
    dynamic = settle_ports(
        [offered[row] - static for row in every],
        [offered[row] - static for row in kept],
        asked.dyn_ports,
        settings.min_dynamic_port,
        random.Random(0),
        earlier=reused,
    )
    if dynamic is None:
        kept, dynamic = [], []
    ranked = [order[row] for row in kept]
    return {
        "nodes": sorted(ranked),
        "ranked": ranked,
        "masks": {
            order[row]: _mask_of(view.nodes.states[row].devices["GPU"], asked.gpu) for row in kept
        },
        "overlap": list(common_ports(offered[row] for row in kept).ranges),
        "port_count": len(static) + len(dynamic),
        "dynamic": Ports.of((port, port) for port in dynamic),
    }


def _labels_asked(asked: SelectorRequest, nodes: dict[str, SelectorNode]) -> dict[str, str]:
    """Return the label selector of a request. The type of GPU counts only if some node has one."""
    labels = {} if asked.label is None else {"label": asked.label.strip()}
    if asked.gpu_type is not None and any(node.gpu_type for node in nodes.values()):
        labels[GPU_TYPE_LABEL] = f"in({asked.gpu_type})"
    return labels


def _state(name: str, node: SelectorNode, reserved: Reserved | None) -> NodeState:
    mine = reserved or Reserved()
    free = node.gpus & ~node.used_gpus & ~mine.mask
    labels = {
        "label": node.labels[0].strip() if node.labels else None,
        GPU_TYPE_LABEL: node.gpu_type,
        "rack": node.rack,
    }
    return NodeState(
        id=name,
        total=ResourceSet.from_mapping(
            {"memory": node.mem, "CPU": node.cpu, "GPU": node.gpus.bit_count()}
        ),
        available=ResourceSet.from_mapping(
            {"memory": node.mem - mine.mem, "CPU": node.cpu - mine.cpu, "GPU": free.bit_count()}
        ),
        labels={key: value for key, value in labels.items() if value is not None},
        devices={"GPU": _devices(free)},
    )


def _devices(free: int) -> tuple[int, ...]:
    """Units left on each device."""
    return tuple(SCALE * (free >> index & 1) for index in range(free.bit_length()))


def _mask_of(left: tuple[int, ...], count: int) -> int:
    taken = take(dict(enumerate(left)), count * SCALE, LowestIndex())
    return sum(1 << index for index, _ in taken or ())


def _settings(*configs: SelectorConfig) -> SelectorSettings:
    given: dict[str, Any] = {}
    for config in configs:
        given.update({k: v for k, v in msgspec.structs.asdict(config).items() if v is not None})
    return SelectorSettings(**given)
