"""The tree of weighted shares behind hierarchical dominant resource fairness.

Source: Volcano's drf plugin (HDRF, after Bhattacharya et al., "Hierarchical scheduling for diverse
datacenter workloads").
"""

from __future__ import annotations

import numpy as np

from phalanx.scheduler.cycle.amounts import EPSILON, Counts, Flags, Vector


class Branch:
    """A queue's level in the tree or, if `request` is set, a job."""

    __slots__ = ("children", "held", "request", "saturated", "share", "weight")

    def __init__(self, size: int, weight: float = 1.0) -> None:
        self.weight = weight
        self.children: dict[str, Branch] = {}
        self.held: Vector = np.zeros(size)
        self.request: Vector | None = None
        self.share = 0.0
        self.saturated = False

    def copy(self) -> Branch:
        twin = Branch(len(self.held), self.weight)
        twin.children = {k: c.copy() for k, c in self.children.items()}
        twin.held, twin.request = self.held.copy(), self.request
        twin.share, twin.saturated = self.share, self.saturated
        return twin

    def compare(self, left: list[str], right: list[str]) -> int:
        """Return a negative number if the left path comes first, a positive one if the right path
        does, and otherwise 0.
        """
        a = b = self
        depth = min(len(left), len(right))
        for i in range(depth):
            if a.saturated != b.saturated:
                return 1 if a.saturated else -1
            mine, theirs = a.share / a.weight, b.share / b.weight
            if mine != theirs:
                return -1 if mine < theirs else 1
            if i < depth - 1:
                nothing = Branch(len(self.held))
                a = a.children.get(left[i + 1], nothing)
                b = b.children.get(right[i + 1], nothing)
        return 0


class ShareTree:
    """The tree of the queues' paths, with jobs as leaves. `total`: the cluster's resources."""

    def __init__(self, total: Vector) -> None:
        self._total = total
        self._of = total >= EPSILON
        self._root = Branch(len(total))
        self.allocated: Vector = np.zeros(len(total))
        self._is_stale = False

    def copy(self) -> ShareTree:
        twin = ShareTree(self._total)
        twin._root = self._root.copy()
        twin.allocated = self.allocated.copy()
        twin._is_stale = self._is_stale
        return twin

    @property
    def root(self) -> Branch:
        """The root of the tree. Before it is returned, all levels are updated from the jobs."""
        if self._is_stale:
            self._is_stale = False
            self._refresh(self._root, (self.allocated < self._total) & self._of)
        return self._root

    def put(
        self, path: list[str], weights: list[str], job: str, held: Vector, request: Counts
    ) -> None:
        """Set the amounts that a job holds and requests. The levels above the job are updated when
        `root` is read the next time.
        """
        branch = self._root
        for i, name in enumerate(path[1:], 1):
            child = branch.children.get(name)
            if child is None:
                child = Branch(len(self._total), weight_of(weights, i))
                branch.children[name] = child
            branch = child
        leaf = branch.children.get(job)
        if leaf is None:
            leaf = branch.children[job] = Branch(len(self._total))
        leaf.held = held
        leaf.request = request.astype(np.float64)
        leaf.share = self._share(held)
        self._is_stale = True

    def _share(self, held: Vector) -> float:
        if not self._of.any():
            return 0.0
        return max(0.0, float((held[self._of] / self._total[self._of]).max()))

    def _refresh(self, branch: Branch, demanding: Flags) -> None:
        if branch.request is not None:
            branch.saturated = _saturated(branch.held, branch.request, demanding)
            return
        least = 1.0
        for child in branch.children.values():
            self._refresh(child, demanding)
            if child.share != 0 and not child.saturated:
                least = min(least, self._share(child.held))
        held = np.zeros(len(self._total))
        for child in branch.children.values():
            if child.share != 0:
                held += child.held if child.saturated else child.held * (least / child.share)
        branch.held = held
        branch.share = self._share(held)
        branch.saturated = all(c.saturated for c in branch.children.values())


def weight_of(weights: list[str], i: int) -> float:
    try:
        return max(1.0, float(weights[i]))
    except (IndexError, ValueError):
        return 1.0


def _saturated(held: Vector, request: Vector, demanding: Flags) -> bool:
    """Return whether a branch can get no more: it holds all of its request of some resource, or it
    requests a resource of which the cluster has nothing left. `demanding`: a mask of the resources
    of which something is left.
    """
    asked = request != 0
    has_all = (held != 0) & asked & (held >= request)
    return bool((has_all | (asked & ~demanding)).any())
