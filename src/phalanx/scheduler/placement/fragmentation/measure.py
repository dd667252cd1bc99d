"""A measure: the part of the idle GPUs that typical pods cannot use.

Source: the fragmentation measure of FGD (USENIX ATC 2023). For a node with idle GPU share R and a
typical shape m: all of R is lost for m if the node cannot host it (or m needs no GPU). Otherwise,
what is idle on GPUs with less left than m asks of one GPU is lost. The node's value is the mean
over the mix. It is written here as R - sum_m share_m * usable_m, with usable_m the idle share on
GPUs where m fits, 0 on nodes that cannot host m.
"""

from __future__ import annotations

import numpy as np

from phalanx.scheduler.placement.fragmentation.mix import Mix
from phalanx.scheduler.placement.fragmentation.nodes import Flags, Floats, GpuNodes, Ints, Rows
from phalanx.scheduler.placement.fragmentation.potential import Potential
from phalanx.scheduler.placement.fragmentation.shape import Shape


class Fragmentation:
    """The fragmentation measure for one mix on one set of nodes, in thousandths of a GPU."""

    def __init__(self, nodes: GpuNodes, mix: Mix) -> None:
        self._nodes = nodes
        self._share = mix.share
        self._usable = Potential(nodes, mix, self._mean)

    def now(self, rows: Rows) -> Floats:
        """Return (T,): the present fragmentation of the nodes in `rows`."""
        return self._nodes.gpu_sum[rows] - self._usable.now(rows)

    def growth(self, rows: Rows, shape: Shape) -> tuple[Rows, Rows, Floats]:
        """Return how much the fragmentation would grow with one more pod; entries as in
        `Potential.falls`.
        """
        where, device, fall = self._usable.falls(rows, shape)
        return where, device, fall - shape.milli

    def _mean(self, cpu: Ints, memory: Ints, hosts: Flags, idle: Ints) -> Floats:
        usable: Floats = np.where(hosts, idle, 0) @ self._share
        return usable
