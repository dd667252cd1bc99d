"""The measure of fragmentation: the idle resources that a typical job cannot use. Typical requests
are the most frequent shapes of tasks, which together cover 95 % of the tasks. They are weighted by
their numbers of tasks. For each typical request, the idle resources of nodes that cannot take
another such task count as fragmented. The result is the weighted mean over the typical requests.
Source: the fragmentation measure of FGD (Weng et al., USENIX ATC 2023), with a node's devices
counted together.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from phalanx.scheduler.cycle.amounts import Dimensions, Vector
from phalanx.scheduler.cycle.cluster import Cluster
from phalanx.scheduler.cycle.specs import Shape
from phalanx_research.timed.workload import Job

COVERED = 0.95


def typical(jobs: Iterable[Job]) -> list[tuple[Shape, float]]:
    """Return typical request shapes and their weights, which sum to 1; empty if there are no
    jobs.
    """
    counts: dict[Shape, int] = {}
    by_id: dict[int, Shape] = {}
    for job in jobs:
        for part in job.parts:
            shape = by_id.setdefault(id(part.shape), part.shape)
            counts[shape] = counts.get(shape, 0) + part.count
    total = sum(counts.values())
    chosen: list[tuple[Shape, int]] = []
    covered = 0
    for shape, n in sorted(counts.items(), key=lambda item: (-item[1], repr(item[0]))):
        if covered >= COVERED * total:
            break
        chosen.append((shape, n))
        covered += n
    return [(shape, n / covered) for shape, n in chosen]


class Fragmentation:
    """Measures the fragmentation of a cluster by a list of typical requests."""

    def __init__(self, dims: Dimensions, resource: str, asked: list[tuple[Shape, float]]) -> None:
        self._column = dims.index[resource]
        self._requests = [(dims.counts(shape.request), weight) for shape, weight in asked]

    def of(self, cluster: Cluster) -> float:
        """Return the percentage of the capacity that is idle but that typical requests
        cannot use.
        """
        capacity = float(cluster.capacity[:, self._column].sum())
        if not capacity:
            return 0.0
        idle: Vector = cluster.idle[:, self._column].astype(np.float64)
        lost = 0.0
        for request, weight in self._requests:
            asked = request > 0
            short = (cluster.idle[:, asked] < request[asked]).any(axis=1)
            lost += weight * float(idle[short].sum())
        return 100.0 * lost / capacity
