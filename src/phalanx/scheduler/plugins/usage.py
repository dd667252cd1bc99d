"""The plugin usage: avoids nodes that measurements show as busy, whatever amounts were promised
there.

Source: Volcano's usage plugin. A node above a threshold (percent) takes no new tasks. The score is
usage.weight * 100 * (cpu.weight * (1 - cpu) + memory.weight * (1 - memory)) / (cpu.weight +
memory.weight), where cpu and memory are the node's load as fractions of 1.

The load of a node is its measured load, plus an estimate for tasks that were not measured yet.
These are the tasks placed in this cycle, bound tasks, and running tasks that started less than 30 s
ago or at an unknown time. A task counts as (request_ratio * request + burst_ratio * (limit -
request)) * risk, at most its limit. A task that requests nothing counts as be_cpu and be_mem. The
risk is risk_factor once the node's weighted load has reached risk_threshold, and 1 below that.
Measurements older than five minutes are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.accepted import NUMBER, QUANTITY, WHOLE, Accepted
from phalanx.scheduler.cycle.amounts import CPU, MEMORY, Vector
from phalanx.scheduler.cycle.arguments import Arguments, number, quantity, table, whole, within
from phalanx.scheduler.cycle.cluster import Cluster
from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass
from phalanx.scheduler.cycle.rows import Ask, Change, Filter, Indexes, Rows, Scorer, by_one, never
from phalanx.scheduler.cycle.session import Session

FRESH_S = 300.0
UNSEEN_S = 30.0
"""Seconds between two measurements in Volcano. A task that has run for less was not measured
yet.
"""
_OF = (CPU, MEMORY)


class Usage:
    """The plugin usage. Arguments: `thresholds: {cpu: 80, mem: 80}` (0 to 100), `usage.weight` (5),
    `cpu.weight` (1), `memory.weight` (1), `estimator: {request_ratio: 0.7, burst_ratio: 0,
    risk_threshold: 0.6 (each 0 to 1), risk_factor: 1.2 (1 or more), be_cpu: 250m, be_mem: 200Mi}`.
    A value out of bounds is replaced by the default.
    """

    name = "usage"
    accepts: ClassVar[Accepted] = {
        "thresholds": {"cpu": NUMBER, "mem": NUMBER},
        "usage.weight": WHOLE,
        "cpu.weight": WHOLE,
        "memory.weight": WHOLE,
        "estimator": {
            "request_ratio": NUMBER,
            "burst_ratio": NUMBER,
            "risk_threshold": NUMBER,
            "risk_factor": NUMBER,
            "be_cpu": QUANTITY,
            "be_mem": QUANTITY,
        },
    }

    def __init__(self, arguments: Arguments) -> None:
        limits = table(arguments, "thresholds")
        self._limits = [within(limits, name, 80.0, 0, 100) for name in ("cpu", "mem")]
        self._weight = whole(arguments, "usage.weight", 5)
        self._weights = [whole(arguments, f"{name}.weight", 1) for name in ("cpu", "memory")]
        self._estimator = Estimator(table(arguments, "estimator"))

    def open(self, session: Session) -> None:
        cluster = session.cluster
        nodes = cluster.nodes
        fresh = np.array(
            [
                bool(n.usage) and (n.usage_at is None or session.now - n.usage_at <= FRESH_S)
                for n in nodes
            ],
            dtype=np.bool_,
        )
        measured = np.array(
            [[dict(n.usage).get(name, 0.0) for name in ("cpu", "memory")] for n in nodes]
        ).reshape(len(nodes), 2)
        busy = fresh & (measured > self._limits).any(axis=1)
        session.add(
            "filter",
            self.name,
            Filter(reason="usage", passes=lambda rows, _: ~busy[rows.index], changes=never),
        )
        total = sum(self._weights)
        if total <= 0:
            return
        load = Load(cluster, measured, self._weights, self._estimator, session.now)

        def score(rows: Rows, _: Ask) -> Vector:
            free = ((1.0 - load.of(rows.index)) * self._weights).sum(axis=1)
            return np.where(fresh[rows.index], free * (100.0 * self._weight / total), 0.0)

        session.add("scorer", self.name, Scorer(name=self.name, score=score, changes=by_one))
        session.add("changed", self.name, load.changed)


class Estimator:
    """Estimates what a task uses until it is measured, in milli-cores and bytes."""

    def __init__(self, arguments: Arguments) -> None:
        self._request = within(arguments, "request_ratio", 0.7, 0, 1)
        self._burst = within(arguments, "burst_ratio", 0.0, 0, 1)
        self._from = within(arguments, "risk_threshold", 0.6, 0, 1)
        self._factor = max(number(arguments, "risk_factor", 1.2), 0.0)
        if self._factor < 1:
            self._factor = 1.2
        cpu, memory = (quantity(arguments.get(k, "")) for k in ("be_cpu", "be_mem"))
        self._best_effort = np.array(
            [250.0 if cpu is None else cpu * 1000, 200 * 2.0**20 if memory is None else memory]
        )
        """The use of a task that requests nothing: 250 milli-cores and 200 MiB by default."""

    def risk(self, load: float) -> float:
        return self._factor if load >= self._from else 1.0

    def of(self, eq_class: EquivalenceClass, limits: Vector, risk: float) -> Vector:
        if eq_class.best_effort:
            return np.asarray(self._best_effort * risk)
        asked = eq_class.vector[list(_OF)]
        most = np.maximum(limits, asked)
        guess = (asked * self._request + (most - asked) * self._burst) * risk
        return np.asarray(np.minimum(guess, most))


class Load:
    """The load of every node, as fractions of 1: what was measured, plus the estimates."""

    def __init__(
        self,
        cluster: Cluster,
        measured: Vector,
        weights: Sequence[float],
        estimator: Estimator,
        now: float,
    ) -> None:
        self._cluster = cluster
        self._capacity = cluster.capacity[:, list(_OF)].astype(np.float64)
        self._measured = measured / 100.0
        self._weights = np.array(weights, dtype=np.float64)
        self._estimator = estimator
        self._guessed = np.zeros_like(self._capacity)
        self._guess_of: dict[int, Vector] = {}
        for t, status in enumerate(cluster.status):
            started = cluster.started[t]
            young = status == j.RUNNING and (started is None or now - started < UNSEEN_S)
            if young or status in (j.ALLOCATED, j.BINDING, j.BOUND):
                self._enter(t, cluster.eq_class[t], cluster.node_of[t])

    def of(self, nodes: Indexes) -> Vector:
        capacity = self._capacity[nodes]
        guessed = np.divide(
            self._guessed[nodes], capacity, out=np.zeros_like(capacity), where=capacity > 0
        )
        load = np.where(capacity > 0, self._measured[nodes] + guessed, 0.0)
        return np.asarray(np.clip(load, 0.0, 1.0))

    def changed(self, change: Change) -> None:
        for t, node in zip(change.tasks, change.nodes, strict=True):
            if change.sign > 0:
                self._enter(t, change.eq_class, node)
            elif t in self._guess_of:
                self._guessed[node] -= self._guess_of.pop(t)

    def _enter(self, t: int, eq_class: EquivalenceClass, node: int) -> None:
        load = self.of(np.array([node]))[0]
        risk = self._estimator.risk(float((load * self._weights).sum() / self._weights.sum()))
        limits = self._cluster.dims.counts(eq_class.shape.limits)[list(_OF)].astype(np.float64)
        guess = self._guess_of[t] = self._estimator.of(eq_class, limits, risk)
        self._guessed[node] += guess
