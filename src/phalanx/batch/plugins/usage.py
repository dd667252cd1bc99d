"""Keep off nodes that measure busy, whatever was promised on them.

Source: Volcano's usage plugin. A node above a threshold (percent) takes nothing new; score =
usage.weight * (cpu.weight * (100 - cpu) + memory.weight * (100 - memory)) / (cpu.weight +
memory.weight). Measurements older than five minutes count for nothing.
"""

from __future__ import annotations

import numpy as np

from phalanx.batch.amounts import Flags, Vector
from phalanx.batch.arguments import Arguments, number
from phalanx.batch.rows import Ask, Filter, Rows, Scorer, never
from phalanx.batch.session import Session

FRESH_S = 300.0


class Usage:
    """`thresholds: {cpu: 80, mem: 80}`, `usage.weight` 5, `cpu.weight` 1, `memory.weight` 1."""

    name = "usage"

    def __init__(self, arguments: Arguments) -> None:
        given = arguments.get("thresholds")
        limits = given if isinstance(given, dict) else {}
        self._limits = (
            number(limits, "cpu", 80.0),
            number(limits, "mem", number(limits, "memory", 80.0)),
        )
        self._weight = number(arguments, "usage.weight", 5.0)
        self._weights = (number(arguments, "cpu.weight", 1.0),
                         number(arguments, "memory.weight", 1.0))  # fmt: skip

    def open(self, session: Session) -> None:
        nodes = session.cluster.nodes
        measured = [dict(n.usage) for n in nodes]
        fresh = np.array(
            [
                bool(n.usage) and (n.usage_at is None or session.now - n.usage_at <= FRESH_S)
                for n in nodes
            ],
            dtype=np.bool_,
        )
        cpu = np.array([m.get("cpu", 0.0) for m in measured])
        memory = np.array([m.get("memory", 0.0) for m in measured])
        busy = fresh & ((cpu > self._limits[0]) | (memory > self._limits[1]))
        total = sum(self._weights)

        def passes(rows: Rows, _: Ask) -> Flags:
            return ~busy[rows.index]

        def score(rows: Rows, _: Ask) -> Vector:
            at = rows.index
            free = self._weights[0] * (100 - cpu[at]) + self._weights[1] * (100 - memory[at])
            return np.where(fresh[at], free * self._weight / total, 0.0)

        session.add("filter", self.name, Filter(reason="usage", passes=passes, changes=never))
        if total > 0:
            session.add("scorer", self.name, Scorer(name=self.name, score=score, changes=never))
