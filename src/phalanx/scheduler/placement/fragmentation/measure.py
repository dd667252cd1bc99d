"""The fragmentation measure: the part of the idle GPUs that typical pods cannot use.

Source: FGD (USENIX ATC 2023). Take a node, the idle share R of all its GPUs together, and a typical
shape m. If the node cannot host m, or m needs no GPU, all of R is lost for m. Otherwise the idle
share of each GPU is lost that has less left than m requests of one GPU. The measure of the node is
the mean of the lost share over all shapes of the mix. It is computed here as R - sum_m share_m *
usable_m, where usable_m is the idle share on GPUs on which m fits, and 0 on nodes that cannot host
m.
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
        """Return the current fragmentation of each node in `rows`, (T,)."""
        return self._nodes.gpu_sum[rows] - self._usable.now(rows)

    def growth(self, rows: Rows, shape: Shape) -> tuple[Rows, Rows, Floats]:
        """Return by how much the fragmentation would grow with one more pod of this shape, in three
        arrays with the form of those of `Potential.falls`.
        """
        where, device, fall = self._usable.falls(rows, shape)
        return where, device, fall - shape.milli

    def _mean(self, cpu: Ints, memory: Ints, hosts: Flags, idle: Ints) -> Floats:
        usable: Floats = np.where(hosts, idle, 0) @ self._share
        return usable
