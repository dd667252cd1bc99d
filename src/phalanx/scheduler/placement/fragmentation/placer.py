"""Picks a node and its GPUs for one pod after another. Only changed nodes are scored again."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from phalanx.scheduler.placement.fragmentation.nodes import Floats, GpuNodes, Rows
from phalanx.scheduler.placement.fragmentation.shape import Shape

NEVER = -np.inf
"""The score of a node without room for the pod."""
MAX_REMEMBERED = 4096
"""The largest number of shapes whose scores are remembered. If there are more, results are the same
but take more time.
"""


class NodePolicy(Protocol):
    """Ranks nodes for a shape, and picks GPUs on the chosen one."""

    name: str
    generation: int
    """A number that the policy increases when the scores of all nodes must be computed again."""

    def observe(self, shape: Shape, count: int = 1) -> None:
        """Learn that `count` pods of this shape have arrived. They were placed already, or will be
        placed soon.
        """
        ...

    def score(self, rows: Rows, shape: Shape) -> Floats:
        """Return one score for each node in `rows`; higher is better. All of these nodes have
        room.
        """
        ...

    def pick_node(self, scores: Floats) -> int:
        """Return the row of the chosen node. `scores`: -inf for nodes without room. At least one
        node has room.
        """
        ...

    def pick_devices(self, row: int, shape: Shape) -> tuple[int, ...]:
        """Return the indexes of the GPUs to use on that node."""
        ...


class _Scored:
    __slots__ = ("generation", "scores", "seen")

    def __init__(self, count: int) -> None:
        self.scores: Floats = np.full(count, NEVER)
        self.seen = -1
        self.generation = -1


class Placer:
    """Places pods on `nodes` by `policy`, and remembers scores by shape."""

    def __init__(self, nodes: GpuNodes, policy: NodePolicy) -> None:
        self._nodes = nodes
        self._policy = policy
        self._scored: dict[Shape, _Scored] = {}
        self._all: Rows = np.arange(len(nodes), dtype=np.intp)

    def place(self, shape: Shape) -> tuple[int, tuple[int, ...]] | None:
        """Pick a node and GPUs for a pod, and book them. Returns None if no node has room now."""
        self._policy.observe(shape)
        scores = self.scores(shape)
        if not len(scores) or scores.max() == NEVER:
            return None
        row = self._policy.pick_node(scores)
        devices = self._policy.pick_devices(row, shape)
        self._nodes.take(row, devices, shape)
        return row, devices

    def scores(self, shape: Shape) -> Floats:
        """Return the policy's current score of each node, (N,); -inf for a node without room."""
        nodes = self._nodes
        known = self._scored.get(shape)
        if known is None:
            if len(self._scored) >= MAX_REMEMBERED:
                self._scored.clear()
            known = self._scored[shape] = _Scored(len(nodes))
        if known.generation != self._policy.generation or known.seen < 0:
            stale = self._all
        else:
            stale = np.flatnonzero(nodes.version > known.seen)
        if len(stale):
            good = stale[nodes.fits(stale, shape)]
            known.scores[stale] = NEVER
            if len(good):
                known.scores[good] = self._policy.score(good, shape)
        known.seen = nodes.changes
        known.generation = self._policy.generation
        return known.scores
