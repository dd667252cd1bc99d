"""A workload with departures, drawn from a trace with times and a seed.

The published trace holds at most 66 of its 6,212 GPUs at a time, so at its own speed no pod ever
waits. Therefore a workload uses a part of the nodes, and the times between arrivals are shortened
by one factor, until the pods request as much as is wanted. The order of the arrivals, the requests
and the run times are those of the trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from phalanx.scheduler.placement.fragmentation.nodes import GpuNodes
from phalanx.scheduler.placement.fragmentation.shape import WHOLE, Shape
from phalanx_research.traces.records import TraceJob, TraceNode

GANG_FORMS = ((2, 4), (4, 2), (2, 8), (4, 4), (8, 1), (1, 8))
"""The gangs that are drawn, as (members, whole GPUs of each)."""
GANG_CPU_MILLI = 4000
"""The thousandths of a core that a gang's member requests for each of its GPUs."""
SHORTEST_GANG_S = 600.0
"""The shortest run time of a drawn gang."""


@dataclass(frozen=True, kw_only=True)
class Unit:
    """`members` equal pods that start together: `at_s`, the time of arrival, and `runs_s`, the run
    time in seconds.
    """

    shape: Shape
    members: int
    at_s: float
    runs_s: float

    @property
    def milli(self) -> int:
        """The thousandths of a GPU that all members take together."""
        return self.shape.milli * self.members

    @property
    def is_gang(self) -> bool:
        """Whether the unit takes whole GPUs for several members, or several whole GPUs."""
        return self.members * self.shape.num_gpu > 1


@dataclass(frozen=True, kw_only=True)
class Replay:
    """Nodes in the order of preference among equal nodes, and units in the order of arrival.
    `past`: the requests of all pods, for policies that know the mix beforehand. `end_s`: the time
    of the last arrival.
    """

    nodes: tuple[TraceNode, ...]
    units: tuple[Unit, ...]
    past: tuple[Shape, ...]
    draws: np.random.Generator
    end_s: float

    @property
    def capacity_milli(self) -> int:
        """The thousandths of a GPU that the cluster has."""
        return WHOLE * sum(node.gpus for node in self.nodes)

    def fresh_nodes(self) -> GpuNodes:
        """Return new, empty nodes."""
        return GpuNodes(
            [n.cpu_milli for n in self.nodes],
            [n.memory_mib for n in self.nodes],
            [n.gpus for n in self.nodes],
            [n.model for n in self.nodes],
        )


def draw_replay(
    nodes: Sequence[TraceNode],
    jobs: Sequence[TraceJob],
    *,
    seed: int,
    part: float,
    load: float,
    gangs: float,
    resampled: bool = False,
) -> Replay:
    """Draw a workload. `part`: the fraction of the nodes that is used. `load`: the GPU time that
    units request until the last arrival, as a multiple of what the cluster has. `gangs`: the
    fraction of the GPU time that gangs request. With `resampled`, pods are drawn with replacement
    from the trace, so that constants are not chosen on the trace itself.
    """
    for_nodes, for_units, for_policy = np.random.SeedSequence([seed, 48]).spawn(3)
    draws = np.random.default_rng(for_units)
    order = np.random.default_rng(for_nodes).permutation(len(nodes))
    used = tuple(nodes[i] for i in order[: max(1, round(part * len(nodes)))])
    timed = sorted(
        (j for j in jobs if j.submitted_s is not None and j.duration_s is not None),
        key=lambda j: (j.submitted_s or 0.0, j.name),
    )
    known = [j for j in timed if _fits(used, j.shape)]
    first_s = _busy_since(known)
    known = [j for j in known if (j.submitted_s or 0.0) >= first_s]
    if resampled:
        picked = np.sort(draws.integers(len(known), size=len(known)))
        known = [known[i] for i in picked]
    units = [
        Unit(
            shape=job.shape,
            members=1,
            at_s=(job.submitted_s or 0.0) - first_s,
            runs_s=job.duration_s or 0.0,
        )
        for job in known
    ]
    units += _drawn_gangs(units, used, gangs, draws)
    units.sort(key=lambda unit: unit.at_s)
    capacity = WHOLE * sum(node.gpus for node in used)
    units = _compressed(units, load * capacity)
    return Replay(
        nodes=used,
        units=tuple(units),
        past=tuple(unit.shape for unit in units for _ in range(unit.members)),
        draws=np.random.default_rng(for_policy),
        end_s=units[-1].at_s,
    )


def _busy_since(jobs: Sequence[TraceJob]) -> float:
    """Return the time since which 98 in 100 of the pods arrived. Before that time, the trace has
    hardly any pods.
    """
    return jobs[len(jobs) // 50].submitted_s or 0.0


def _fits(nodes: Sequence[TraceNode], shape: Shape) -> bool:
    """Whether an empty node could take a pod of this shape."""
    return any(
        node.gpus >= shape.num_gpu
        and node.cpu_milli >= shape.cpu_milli
        and node.memory_mib >= shape.memory_mib
        and (not shape.models or node.model in shape.models)
        for node in nodes
    )


def _drawn_gangs(
    units: Sequence[Unit], nodes: Sequence[TraceNode], share: float, draws: np.random.Generator
) -> list[Unit]:
    """Return gangs at times and with run times of drawn pods, until they request this fraction of
    the GPU time of all units.
    """
    forms = [
        (members, gpus)
        for members, gpus in GANG_FORMS
        if sum(node.gpus // gpus for node in nodes) >= 2 * members
    ]
    long = [unit for unit in units if unit.runs_s >= SHORTEST_GANG_S and unit.shape.num_gpu]
    cap_s = float(np.quantile([unit.runs_s for unit in long], 0.95))
    wanted = share / (1 - share) * sum(u.milli * min(u.runs_s, cap_s) for u in units)
    made: list[Unit] = []
    asked = 0.0
    while asked < wanted:
        members, gpus = forms[int(draws.integers(len(forms)))]
        like = long[int(draws.integers(len(long)))]
        unit = Unit(
            shape=Shape(GANG_CPU_MILLI * gpus, 8192 * gpus, gpus, WHOLE),
            members=members,
            at_s=units[int(draws.integers(len(units)))].at_s,
            runs_s=min(like.runs_s, cap_s),
        )
        made.append(unit)
        asked += unit.milli * unit.runs_s
    return made


def _compressed(units: Sequence[Unit], wanted_milli: float) -> list[Unit]:
    """Return the units with the times between arrivals shortened by one factor. The units then
    request `wanted_milli` thousandths of a GPU on average until the last arrival.
    """
    at = np.array([unit.at_s for unit in units])
    runs = np.array([unit.runs_s for unit in units])
    milli = np.array([float(unit.milli) for unit in units])
    low, high = 1.0, 1e6
    for _ in range(60):
        factor = (low * high) ** 0.5
        end = at[-1] / factor
        asked = float((milli * np.minimum(runs, end - at / factor)).sum()) / max(end, 1e-9)
        low, high = (factor, high) if asked < wanted_milli else (low, factor)
    return [replace(unit, at_s=unit.at_s / high) for unit in units]
