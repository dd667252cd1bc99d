"""A node policy that knows when running pods end: fragmentation now and at later times.

FGD looks at the nodes as they are now. Here the nodes are also kept as they will be after ten
minutes, one hour and six hours, if running pods end as known and nothing else starts. A pod goes
where the fragmentation grows least in the sum over these times. A pod that ends before one of the
times does not affect the nodes at that time. So short pods go where they leave the least waste now.
Long pods go to nodes that other pods hold for long, and avoid nodes that will soon be empty.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

import numpy as np

from phalanx.scheduler.placement.fragmentation.measure import Fragmentation
from phalanx.scheduler.placement.fragmentation.mix import Mix
from phalanx.scheduler.placement.fragmentation.nodes import Flags, Floats, GpuNodes, Rows
from phalanx.scheduler.placement.fragmentation.placer import Placer
from phalanx.scheduler.placement.fragmentation.published import FirstFit, best_of, lowest_free
from phalanx.scheduler.placement.fragmentation.shape import Shape

Place = tuple[int, tuple[int, ...]]
AHEAD_S = (0.0, 600.0, 3600.0, 6 * 3600.0)
"""How far ahead of now the fragmentation is measured, in seconds."""
STEP_MILLI = 40.0
"""The step in thousandths of a GPU to which growth is rounded; among equal nodes the first wins."""


class _Growth(FirstFit):
    """Scores nodes by the growth of the fragmentation, without rounding."""

    def __init__(self, nodes: GpuNodes, measure: Fragmentation) -> None:
        super().__init__(nodes)
        self._measure = measure

    def score(self, rows: Rows, shape: Shape) -> Floats:
        where, _, growth = self._measure.growth(rows, shape)
        return best_of(where, -growth, len(rows))


class _Later:
    """The nodes at one time ahead, without the running pods that end before that time."""

    def __init__(self, nodes: GpuNodes, mix: Mix, ahead_s: float) -> None:
        self.nodes = nodes
        self.ahead_s = ahead_s
        self.measure = Fragmentation(nodes, mix)
        self.placer = Placer(nodes, _Growth(nodes, self.measure))
        self._there: dict[tuple[int, Place], Shape] = {}
        self._ends: list[tuple[float, int, Place]] = []

    def until(self, now: float) -> None:
        """Remove the pods that end before the time ahead of `now`."""
        while self._ends and self._ends[0][0] <= now:
            _, number, place = heapq.heappop(self._ends)
            self.give_back(number, place)

    def take(self, number: int, place: Place, shape: Shape, end_s: float) -> None:
        """Book a pod of a unit that ends at `end_s`."""
        self.nodes.take(*place, shape)
        self._there[number, place] = shape
        heapq.heappush(self._ends, (end_s - self.ahead_s, number, place))

    def give_back(self, number: int, place: Place) -> None:
        """Undo `take`, if the pod is still there."""
        shape = self._there.pop((number, place), None)
        if shape is not None:
            self.nodes.give_back(*place, shape)


class Foreseen:
    """The nodes now and at the times ahead, and the place of a pod. `nodes`: the nodes now, which
    the caller books. `fresh`: makes empty nodes.
    """

    def __init__(self, nodes: GpuNodes, fresh: Callable[[], GpuNodes], mix: Mix) -> None:
        now_s, *later_s = AHEAD_S
        self._now = _Later(nodes, mix, now_s)
        self._later = [_Later(fresh(), mix, ahead_s) for ahead_s in later_s]

    def take(self, number: int, place: Place, shape: Shape, now: float, runs_s: float) -> None:
        """Book a pod that was placed now, at all times at which it still runs."""
        for later in self._later:
            if runs_s > later.ahead_s:
                later.take(number, place, shape, now + runs_s)

    def give_back(self, number: int, place: Place) -> None:
        """Take a pod's place back at all times."""
        for later in self._later:
            later.give_back(number, place)

    def choose(self, shape: Shape, good: Flags, now: float, runs_s: float) -> Place:
        """Return the place of a pod on one of the nodes in the mask `good`, which have room now."""
        for later in self._later:
            later.until(now)
        times = [self._now, *(later for later in self._later if runs_s > later.ahead_s)]
        rows = np.flatnonzero(good)
        total = np.sum([at.placer.scores(shape)[rows] for at in times], axis=0)
        row = int(rows[np.argmax(_steps(total))])
        if not shape.is_shared:
            return row, lowest_free(self._now.nodes, row, shape)
        fitting = np.flatnonzero(self._now.nodes.gpu_left[row] >= shape.gpu_milli)
        total = np.sum([_on_devices(at, row, fitting, shape) for at in times], axis=0)
        return row, (int(fitting[np.argmax(_steps(total))]),)


def _on_devices(at: _Later, row: int, devices: Rows, shape: Shape) -> Floats:
    """Return the score of each of a node's devices for a pod that shares one."""
    left = at.nodes.gpu_left[row]
    _, device, growth = at.measure.growth(np.array([row], dtype=np.intp), shape)
    of_left = dict(zip(left[device].tolist(), growth.tolist(), strict=True))
    return -np.array([of_left[amount] for amount in left[devices].tolist()])


def _steps(scores: Floats) -> Floats:
    """Return scores in whole steps. A tolerance keeps rounding errors from deciding."""
    return np.floor(scores / STEP_MILLI + 1e-9)
