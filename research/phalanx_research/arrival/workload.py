"""The order of nodes and pods of one arrival experiment, from a seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from phalanx.scheduler.placement.fragmentation.nodes import GpuNodes
from phalanx.scheduler.placement.fragmentation.shape import Shape
from phalanx_research.traces.records import TraceJob, TraceNode


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Nodes in the order in which equals are preferred, pods in the order of their arrival.

    `past` is the trace before it was shuffled and inflated: what a cluster's history would tell.
    `draws` is the source of randomness for a policy.
    """

    nodes: tuple[TraceNode, ...]
    arrivals: tuple[Shape, ...]
    past: tuple[Shape, ...]
    draws: np.random.Generator

    def fresh_nodes(self) -> GpuNodes:
        """The nodes, empty."""
        return GpuNodes(
            [n.cpu_milli for n in self.nodes],
            [n.memory_mib for n in self.nodes],
            [n.gpus for n in self.nodes],
            [n.model for n in self.nodes],
        )


def draw_workload(
    nodes: Sequence[TraceNode], jobs: Sequence[TraceJob], *, inflate: float, seed: int
) -> Workload:
    """Shuffle nodes and pods; append copies of pods drawn at random until what all ask for would
    exceed `inflate` times the GPUs there are.

    As in the published experiment the test counts one GPU of the next copy, so the sum overshoots
    a little where it asks for several.
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
