"""How much of the idle GPUs the usual pods cannot use.

Source: the fragmentation measure of FGD (USENIX ATC 2023). For a node with idle GPU share R and a
typical shape m: all of R is lost for m if the node cannot host it (or m needs no GPU); else what
lies idle on GPUs with less left than m asks of one is. The node's value is the mean over the mix.
Written here as R - sum_m share_m * usable_m, with usable_m the idle share on GPUs where m fits, 0
on nodes that cannot host m.
"""

from __future__ import annotations

import numpy as np

from phalanx.policies.fragmentation.mix import Mix
from phalanx.policies.fragmentation.nodes import Flags, Floats, GpuNodes, Ints, Rows
from phalanx.policies.fragmentation.shape import Shape


class Fragmentation:
    """The measure for one mix on one set of nodes; (T,) for T rows, in thousandths of a GPU."""

    def __init__(self, nodes: GpuNodes, mix: Mix) -> None:
        self._nodes = nodes
        self._mix = mix
        self._accepted = mix.accepted(nodes.model_names)

    def now(self, rows: Rows) -> Floats:
        """The fragmentation of nodes as they are."""
        nodes = self._nodes
        left = nodes.gpu_left[rows][:, :, None]
        at = left >= self._mix.thresholds
        usable = self._usable(
            rows, nodes.cpu_left[rows], at.sum(axis=1), np.where(at, left, 0).sum(axis=1)
        )
        return nodes.gpu_sum[rows] - usable

    def growth_whole(self, rows: Rows, shape: Shape) -> Floats:
        """How much it would grow if a pod took no GPU, or whole GPUs, lowest number first.

        Each of the nodes must have room for it.
        """
        nodes, mix = self._nodes, self._mix
        left = nodes.gpu_left[rows]
        before = left[:, :, None] >= mix.thresholds
        count = before.sum(axis=1)
        idle = np.where(before, left[:, :, None], 0).sum(axis=1)
        cpu = nodes.cpu_left[rows]
        usable = self._usable(rows, cpu, count, idle)
        usable_after = self._usable(
            rows, cpu - shape.cpu_milli, count - shape.num_gpu, idle - shape.milli
        )
        return usable - usable_after - shape.milli

    def growth_shared(self, rows: Rows, shape: Shape) -> tuple[Rows, Rows, Floats]:
        """The same for a part of one GPU, for each different GPU on which it fits.

        Gives (which of `rows`, GPU, growth), in that order; of GPUs with equal amounts left only
        the first is named.
        """
        nodes, mix = self._nodes, self._mix
        left = nodes.gpu_left[rows]
        at = left[:, :, None] >= mix.thresholds
        count = at.sum(axis=1)
        idle = np.where(at, left[:, :, None], 0).sum(axis=1)
        usable = self._usable(rows, nodes.cpu_left[rows], count, idle)
        where, device = np.nonzero((left >= shape.gpu_milli) & ~_repeated(left))
        old = left[where, device][:, None]
        new = old - shape.gpu_milli
        was, stays = at[where, device], new >= mix.thresholds
        usable_after = self._usable(
            rows[where],
            nodes.cpu_left[rows[where]] - shape.cpu_milli,
            count[where] - was + stays,
            idle[where] - np.where(was, old, 0) + np.where(stays, new, 0),
        )
        return where, device, usable[where] - usable_after - shape.gpu_milli

    def _usable(self, rows: Rows, cpu: Ints, count: Ints, idle: Ints) -> Floats:
        """Mean over the mix of idle share on GPUs that fit, given for each threshold the number
        of such GPUs (T, K) and what is idle on them (T, K)."""
        mix = self._mix
        hosts = self._accepted[self._nodes.model[rows]]
        hosts = hosts & (cpu[:, None] >= mix.cpu)
        level = np.minimum(mix.level, max(0, len(mix.thresholds) - 1))
        if not len(mix.thresholds):
            return np.zeros(len(rows))
        hosts &= count[:, level] >= mix.num
        usable: Floats = np.where(hosts, idle[:, level], 0) @ mix.share
        return usable


def _repeated(left: Ints) -> Flags:
    """(T, G): True where a GPU further to the left in the row has as much left."""
    same = left[:, :, None] == left[:, None, :]
    return np.asarray(np.tril(same, -1).any(axis=2), dtype=np.bool_)
