"""The order of nodes and pods of one arrival experiment, drawn from a seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from phalanx.scheduler.placement.fragmentation.nodes import GpuNodes
from phalanx.scheduler.placement.fragmentation.shape import Shape
from phalanx_research.traces.records import TraceJob, TraceNode


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Nodes in the order of preference among equal nodes, and pods in the order of arrival. `past`
    is the trace before shuffling and inflation, in place of a cluster's history. `draws` is the
    random generator of the policy.
    """

    nodes: tuple[TraceNode, ...]
    arrivals: tuple[Shape, ...]
    past: tuple[Shape, ...]
    draws: np.random.Generator

    def fresh_nodes(self) -> GpuNodes:
        """Return new, empty nodes."""
        return GpuNodes(
            [n.cpu_milli for n in self.nodes],
            [n.memory_mib for n in self.nodes],
            [n.gpus for n in self.nodes],
            [n.model for n in self.nodes],
        )


def draw_workload(
    nodes: Sequence[TraceNode], jobs: Sequence[TraceJob], *, inflate: float, seed: int
) -> Workload:
    """Shuffle nodes and pods, and append copies of random pods until all requests together reach
    `inflate` times the available GPUs.

    A copy is appended only if the sum stays within this limit. As in the published experiment, the
    check counts the copy as one GPU. So the sum exceeds the limit slightly if the last copy
    requests several GPUs.
    """
    for_nodes, for_pods, for_policy = np.random.SeedSequence(seed).spawn(3)
    node_order = np.random.default_rng(for_nodes).permutation(len(nodes))
    draws = np.random.default_rng(for_pods)
    past = tuple(
        job.shape for job in sorted(jobs, key=lambda j: j.name) for _ in range(job.members)
    )
    arrivals = [past[i] for i in draws.permutation(len(past))]
    limit = inflate * 1000 * sum(n.gpus for n in nodes)
    asked = sum(shape.milli for shape in arrivals)
    while asked and asked <= limit:
        copy = past[int(draws.integers(len(past)))]
        if asked + copy.gpu_milli > limit:
            break
        arrivals.append(copy)
        asked += copy.milli
    return Workload(
        nodes=tuple(nodes[i] for i in node_order),
        arrivals=tuple(arrivals),
        past=past,
        draws=np.random.default_rng(for_policy),
    )
