"""The plugin numa-aware: puts a task's cores and devices on few NUMA nodes.

Source: Volcano's numa-aware plugin. The policy is in the task's annotation
volcano.sh/numa-topology-policy:
- best-effort: the node's NUMA nodes must be known, and a core must be free.
- restricted: the task may use no more NUMA nodes than it would need on an empty machine.
- single-numa-node: the task may use only one NUMA node.

Fractions of a core belong to no NUMA node, so tasks that request them may take their cores
anywhere. The score is weight * (100 - 100 * n / m), where n is the number of NUMA nodes that the
task would use, and m the largest such number of any candidate.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import ClassVar

import numpy as np

from phalanx.scheduler.cycle.accepted import WHOLE, Accepted
from phalanx.scheduler.cycle.amounts import CPU, MEMORY, PODS, Counts, Flags, Vector
from phalanx.scheduler.cycle.arguments import Arguments, whole
from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass
from phalanx.scheduler.cycle.rows import ALWAYS, NEVER, Ask, Change, Filter, Rows, Scorer
from phalanx.scheduler.cycle.session import Session

POLICY = "volcano.sh/numa-topology-policy"
_SINGLE = "single-numa-node"
_STRICT = ("restricted", _SINGLE)
_MAX_PARTS = 8
"""The largest number of NUMA nodes for which every combination is tried (the kubelet has the same
limit).
"""


class NumaAware:
    """The plugin numa-aware. Argument: `weight` (1). Nodes declare the free amounts of each NUMA
    node in `numa`. Nodes without `numa` take no task that has a policy.
    """

    name = "numa-aware"
    accepts: ClassVar[Accepted] = {"weight": WHOLE}

    def __init__(self, arguments: Arguments) -> None:
        self._weight = whole(arguments, "weight", 1)

    def open(self, session: Session) -> None:
        self._cluster = session.cluster
        dims = session.cluster.dims
        self._free: list[list[Counts]] = [
            [dims.counts(part) for part in node.numa] for node in session.cluster.nodes
        ]
        self._taken: dict[int, list[tuple[int, Counts]]] = {}
        caring = any(_policy(k) for k in session.cluster.eq_classes)
        if not caring:
            return

        def changes(eq_class: EquivalenceClass) -> int:
            return ALWAYS if _policy(eq_class) else NEVER

        session.add("changed", self.name, self._changed)
        session.add("filter", self.name, Filter(reason="numa", passes=self._passes,
                                                changes=changes, curable=True))  # fmt: skip
        session.add("scorer", self.name, Scorer(name=self.name, score=self._score, changes=changes))

    def _passes(self, rows: Rows, ask: Ask) -> Flags:
        policy = _policy(ask.eq_class)
        if not policy:
            return np.ones(len(rows), dtype=np.bool_)
        good = []
        for n in rows.index:
            if policy not in _STRICT or not _aligned(ask.eq_class):
                good.append(any(part[CPU] > 0 for part in self._free[n]))
                continue
            used = self._spread(int(n), ask.eq_class)
            limit = 1 if policy == _SINGLE else self._fewest(int(n), ask.eq_class)
            good.append(0 < used <= limit)
        return np.array(good, dtype=np.bool_)

    def _score(self, rows: Rows, ask: Ask) -> Vector:
        if not _policy(ask.eq_class):
            return np.zeros(len(rows))
        used = np.array([self._spread(int(n), ask.eq_class) for n in rows.index], dtype=np.float64)
        worst = used.max(initial=0.0)
        if worst == 0:
            return np.full(len(rows), 100.0 * self._weight)
        out: Vector = self._weight * (100.0 - np.floor(100.0 * used / worst))
        return out

    def _spread(self, node: int, eq_class: EquivalenceClass) -> int:
        """Return how many of a node's NUMA nodes the task needs now; 0 if they cannot hold it."""
        return len(self._choose(self._free[node], eq_class))

    def _fewest(self, node: int, eq_class: EquivalenceClass) -> int:
        """Return how many NUMA nodes the task would need if the node were empty and evenly
        divided.
        """
        parts = len(self._free[node])
        if parts == 0:
            return 0
        each = self._cluster.capacity[node] // parts
        need = [-(-int(eq_class.request[r]) // max(int(each[r]), 1)) for r in _aligned(eq_class)]
        return max(need, default=1)

    def _choose(self, free: list[Counts], eq_class: EquivalenceClass) -> tuple[int, ...]:
        """Return the smallest set of NUMA nodes that together can hold the request; of several, the
        first.

        On a machine with more than eight NUMA nodes, those that have most of the request are taken,
        which may be more NUMA nodes than necessary. The result is empty if all NUMA nodes together
        have too little.
        """
        of = _aligned(eq_class)
        need = eq_class.request[of]
        parts = np.array([part[of] for part in free]).reshape(len(free), len(of))
        if not free or bool((parts.sum(axis=0) < need).any()):
            return ()
        if len(free) > _MAX_PARTS:
            return _fullest(parts, need)
        sets = _sets(len(free))
        enough = (sets @ parts >= need).all(axis=1)
        return tuple(np.flatnonzero(sets[int(np.argmax(enough))]).tolist())

    def _changed(self, change: Change) -> None:
        for t, node in zip(change.tasks, change.nodes, strict=True):
            if change.sign < 0:
                for part, amount in self._taken.pop(t, ()):
                    self._free[node][part] = self._free[node][part] + amount
                continue
            left = np.zeros_like(change.eq_class.request)
            left[_aligned(change.eq_class)] = change.eq_class.request[_aligned(change.eq_class)]
            taken = []
            for part in self._choose(self._free[node], change.eq_class):
                amount = np.minimum(left, np.maximum(self._free[node][part], 0))
                self._free[node][part] = self._free[node][part] - amount
                left = left - amount
                taken.append((part, amount))
            self._taken[t] = taken


@cache
def _sets(size: int) -> Counts:
    """Return every set of NUMA nodes out of `size` as a row of 0 and 1, smallest sets first."""
    chosen = [c for n in range(1, size + 1) for c in combinations(range(size), n)]
    return np.array([[i in c for i in range(size)] for c in chosen], dtype=np.int64)


def _fullest(free: Counts, need: Counts) -> tuple[int, ...]:
    """Return NUMA nodes that cover the need. They are chosen one after another: each covers most of
    the amount that is still missing.
    """
    left = need.astype(np.float64)
    chosen: list[int] = []
    while True:
        covered = np.minimum(np.maximum(free, 0), left) / np.maximum(need, 1)
        covered[chosen] = -1.0
        chosen.append(int(np.argmax(covered.sum(axis=1))))
        left = np.maximum(left - free[chosen[-1]], 0.0)
        if not left.any():
            return tuple(sorted(chosen))


def _aligned(eq_class: EquivalenceClass) -> list[int]:
    """Return the resources that should come from few NUMA nodes: devices, and CPUs if whole cores
    are requested.
    """
    whole_cores = eq_class.request[CPU] % 1000 == 0
    return [r for r in eq_class.asked if r not in (MEMORY, PODS) and (r != CPU or whole_cores)]


def _policy(eq_class: EquivalenceClass) -> str:
    policy = dict(eq_class.shape.annotations).get(POLICY, "")
    return "" if policy == "none" else policy
