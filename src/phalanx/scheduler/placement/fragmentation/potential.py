"""The worth of a node for later pods, and how much of it is lost when a pod is placed there."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from phalanx.scheduler.placement.fragmentation.mix import Mix
from phalanx.scheduler.placement.fragmentation.nodes import Flags, Floats, GpuNodes, Ints, Rows
from phalanx.scheduler.placement.fragmentation.shape import Shape


class Worth(Protocol):
    """Rates room, in thousandths of a GPU."""

    def __call__(self, cpu: Ints, memory: Ints, hosts: Flags, idle: Ints) -> Floats:
        """Return the worth of the room on T nodes, (T,).

        `cpu` and `memory`: (T,), the cores and MiB that are left. `hosts`: (T, M), whether each
        shape of the mix would fit. `idle`: (T, M), the idle share of those GPUs on which each shape
        would fit.
        """
        ...


class Potential:
    """The worth of nodes in their current state, and with one more pod."""

    def __init__(self, nodes: GpuNodes, mix: Mix, worth: Worth) -> None:
        self._nodes = nodes
        self._mix = mix
        self._worth = worth
        self._accepted = mix.accepted(nodes.model_names)
        self._level = np.minimum(mix.level, max(0, len(mix.thresholds) - 1))

    def now(self, rows: Rows) -> Floats:
        """Return the current worth of each node in `rows`, (T,)."""
        return self._worth(*self.room(rows))

    def room(self, rows: Rows) -> tuple[Ints, Ints, Flags, Ints]:
        """Return the arguments with which `Worth` is called for the current state of nodes."""
        count, idle = self._by_threshold(self._nodes.gpu_left[rows])
        cpu, memory = self._nodes.cpu_left[rows], self._nodes.memory_left[rows]
        return self._for_shapes(rows, cpu, memory, count, idle)

    def falls(self, rows: Rows, shape: Shape) -> tuple[Rows, Rows, Floats]:
        """Return by how much the worth of nodes with room for a pod would fall with the pod.

        Returns the arrays (index in `rows`, GPU, fall). For a part of a GPU, there is one entry for
        each different amount left on a node's GPUs, with the first such GPU. Otherwise there is one
        entry for each node, where whole GPUs are taken from the lowest number up.
        """
        nodes = self._nodes
        left = nodes.gpu_left[rows]
        cpu, memory = nodes.cpu_left[rows], nodes.memory_left[rows]
        count, idle = self._by_threshold(left)
        before = self._worth(*self._for_shapes(rows, cpu, memory, count, idle))
        if shape.is_shared:
            where, device = np.nonzero((left >= shape.gpu_milli) & ~_repeated(left))
            old = left[where, device][:, None]
            new = old - shape.gpu_milli
            was, stays = old >= self._mix.thresholds, new >= self._mix.thresholds
            count = count[where] - was + stays
            idle = idle[where] - np.where(was, old, 0) + np.where(stays, new, 0)
        else:
            where = np.arange(len(rows), dtype=np.intp)
            device = np.zeros(len(rows), dtype=np.intp)
            count, idle = count - shape.num_gpu, idle - shape.milli
        cpu, memory = cpu[where] - shape.cpu_milli, memory[where] - shape.memory_mib
        after = self._worth(*self._for_shapes(rows[where], cpu, memory, count, idle))
        return where, device, before[where] - after

    def _by_threshold(self, left: Ints) -> tuple[Ints, Ints]:
        """Return two arrays (T, K): how many GPUs have at least each threshold left, and how much
        these GPUs have idle in total.
        """
        at = left[:, :, None] >= self._mix.thresholds
        return at.sum(axis=1), np.where(at, left[:, :, None], 0).sum(axis=1)

    def _for_shapes(
        self, rows: Rows, cpu: Ints, memory: Ints, count: Ints, idle: Ints
    ) -> tuple[Ints, Ints, Flags, Ints]:
        mix = self._mix
        hosts = self._accepted[self._nodes.model[rows]] & (cpu[:, None] >= mix.cpu)
        hosts &= memory[:, None] >= mix.memory
        if not len(mix.thresholds):
            return cpu, memory, hosts, np.zeros(hosts.shape, dtype=np.int64)
        hosts &= count[:, self._level] >= mix.num
        return cpu, memory, hosts, idle[:, self._level]


def _repeated(left: Ints) -> Flags:
    """Return (T, G): whether a GPU with a lower number on the same node has the same amount
    left.
    """
    order = left.argsort(axis=1, kind="stable")
    ranked = np.take_along_axis(left, order, axis=1)
    out = np.zeros(left.shape, dtype=np.bool_)
    np.put_along_axis(out, order[:, 1:], ranked[:, 1:] == ranked[:, :-1], axis=1)
    return out
