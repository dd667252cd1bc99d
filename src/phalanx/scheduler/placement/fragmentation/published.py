"""The node policies of the fragmentation experiment (FGD, USENIX ATC 2023), and FirstFit.

Scores are truncated to whole numbers where the original programs do so. Truncation affects the
results considerably, because the first of several nodes with equal scores is taken.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from phalanx.scheduler.placement.fragmentation.measure import Fragmentation
from phalanx.scheduler.placement.fragmentation.mix import Mix
from phalanx.scheduler.placement.fragmentation.nodes import Floats, GpuNodes, Ints, Rows
from phalanx.scheduler.placement.fragmentation.shape import WHOLE, Shape


class Draws(Protocol):
    """The methods of numpy's Generator that the policies use."""

    def integers(self, high: int, /) -> Any:
        """Return a whole number from 0 to `high` - 1."""
        ...


class FirstFit:
    """The policy that takes the first node with room, and its tightest GPU. The other policies
    derive from this one.
    """

    name = "firstfit"
    generation = 0

    def __init__(self, nodes: GpuNodes) -> None:
        self.nodes = nodes

    def observe(self, shape: Shape, count: int = 1) -> None:
        """Do nothing, because this policy does not learn."""

    def score(self, rows: Rows, shape: Shape) -> Floats:
        return np.zeros(len(rows))

    def pick_node(self, scores: Floats) -> int:
        return int(scores.argmax())

    def pick_devices(self, row: int, shape: Shape) -> tuple[int, ...]:
        left = self.nodes.gpu_left[row]
        fitting = np.flatnonzero(left >= max(shape.gpu_milli, 1))
        tightest = fitting[np.argsort(left[fitting], kind="stable")]
        return tuple(int(d) for d in tightest[: shape.num_gpu])


class Random(FirstFit):
    """The policy that takes a random node with room, and a random GPU with room on it."""

    name = "random"

    def __init__(self, nodes: GpuNodes, draws: Draws) -> None:
        super().__init__(nodes)
        self._draws = draws

    def pick_node(self, scores: Floats) -> int:
        good = np.flatnonzero(scores > -np.inf)
        return int(good[int(self._draws.integers(len(good)))])

    def pick_devices(self, row: int, shape: Shape) -> tuple[int, ...]:
        fitting = np.flatnonzero(self.nodes.gpu_left[row] >= max(shape.gpu_milli, 1))
        if shape.is_shared:
            return (int(fitting[int(self._draws.integers(len(fitting)))]),)
        return tuple(int(d) for d in fitting[: shape.num_gpu])


class BestFit(FirstFit):
    """The policy that leaves the fewest cores and the smallest GPU share on a node. Both have equal
    weight.
    """

    name = "bestfit"

    def score(self, rows: Rows, shape: Shape) -> Floats:
        largest_cpu, largest_gpu = self.nodes.largest
        cpu = (self.nodes.cpu_left[rows] - shape.cpu_milli) / largest_cpu
        gpu = (self.nodes.gpu_sum[rows] - shape.milli) / largest_gpu
        return np.trunc(100 * (1 - (cpu + gpu) / 2))


class DotProd(FirstFit):
    """The policy that takes the node whose free amounts point least in the direction of the
    request.
    """

    name = "dotprod"

    def score(self, rows: Rows, shape: Shape) -> Floats:
        largest_cpu, largest_gpu = self.nodes.largest
        cpu = self.nodes.cpu_left[rows] * shape.cpu_milli / largest_cpu**2
        gpu = self.nodes.gpu_sum[rows] * shape.milli / largest_gpu**2
        return np.trunc(100 * (1 - (cpu + gpu) / 2))


class GpuPacking(FirstFit):
    """The policy that takes used GPUs, then free GPUs of used nodes, then unused nodes."""

    name = "gpupacking"

    def score(self, rows: Rows, shape: Shape) -> Floats:
        nodes = self.nodes
        if not shape.num_gpu:
            return np.zeros(len(rows))
        left = nodes.gpu_left[rows]
        count = nodes.gpus[rows]
        unused = nodes.gpu_sum[rows] == count * WHOLE
        chosen = _tightest(left, shape)
        opened = (chosen == WHOLE).sum(axis=1)
        rest = (chosen // 10).sum(axis=1) / 10
        return np.where(
            unused,
            np.maximum(33 - count, count),
            np.where(opened > 0, np.maximum(50 - opened, 33), np.trunc(np.maximum(100 - rest, 50))),
        ).astype(np.float64)


class GpuClustering(FirstFit):
    """The policy that prefers nodes whose pods have the same number of GPUs or, for a pod that
    shares a GPU, nodes with such pods.
    """

    name = "gpuclustering"

    def score(self, rows: Rows, shape: Shape) -> Floats:
        if not shape.num_gpu:
            return np.zeros(len(rows))
        hosted = self.nodes.hosted[rows] > 0
        same = hosted[:, shape.kind]
        kinds = hosted.sum(axis=1)
        base = np.where(same, np.where(kinds == 1, 75, 50), np.where(kinds == 0, 25, 0))
        _, largest_gpu = self.nodes.largest
        used = largest_gpu - self.nodes.gpu_sum[rows]
        return np.asarray(np.trunc(25 * used / largest_gpu + base), np.float64)


class FragmentationDescent(FirstFit):
    """FGD: the policy that takes the node and GPU where the measure grows least. Scores are 0 to
    100.
    """

    name = "fgd"

    def __init__(self, nodes: GpuNodes, mix: Mix) -> None:
        super().__init__(nodes)
        self._measure = Fragmentation(nodes, mix)

    def score(self, rows: Rows, shape: Shape) -> Floats:
        where, _, growth = self._measure.growth(rows, shape)
        return best_of(where, _hundredths(growth), len(rows))

    def pick_devices(self, row: int, shape: Shape) -> tuple[int, ...]:
        if not shape.is_shared:
            return lowest_free(self.nodes, row, shape)
        _, device, growth = self._measure.growth(np.array([row], dtype=np.intp), shape)
        return (int(device[_hundredths(growth).argmax()]),)


def best_of(where: Rows, scores: Floats, count: int) -> Floats:
    """Return the best score of each node, (count,). `scores` has one entry for each possible
    choice, and `where` the node of each entry.
    """
    best = np.full(count, -np.inf)
    np.maximum.at(best, where, scores)
    return best


def lowest_free(nodes: GpuNodes, row: int, shape: Shape) -> tuple[int, ...]:
    """Return the free GPUs with the lowest numbers, as many as the pod requests."""
    free = np.flatnonzero(nodes.gpu_left[row] >= WHOLE)
    return tuple(int(d) for d in free[: shape.num_gpu])


def _hundredths(growth: Floats) -> Floats:
    """Return the score for each growth of the fragmentation, as in the original program.

    `growth` is in thousandths of a GPU. Scores are whole numbers from 0 to 100; less growth has a
    higher score, and no growth has 50.
    """
    # Without growth the result must be 50, regardless of the rounding of its sum.
    return np.trunc(100 / (1 + np.exp(growth / WHOLE)) + 1e-9)


def _tightest(left: Ints, shape: Shape) -> Ints:
    """Return what is left on the GPUs that best fit would choose for a pod, (T, num_gpu)."""
    fitting = np.where(left >= shape.gpu_milli, left, np.iinfo(np.int64).max)
    return np.sort(fitting, axis=1)[:, : shape.num_gpu]
