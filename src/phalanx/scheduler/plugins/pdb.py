"""The plugin pdb: allows victims only within disruption budgets.

Source: Volcano's pdb plugin. A budget allows a victim among the tasks that it covers if at least
its minimum of these tasks keeps running, or if at most its maximum of them is then unavailable.
Volcano's quirks, off with compat "none": a task without labels is never a victim, and all tasks
that budgets allow are victims of shuffle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.accepted import Accepted
from phalanx.scheduler.cycle.arguments import Arguments, part_of
from phalanx.scheduler.cycle.matching import meets
from phalanx.scheduler.cycle.session import Session


class DisruptionBudgets:
    """The plugin pdb. It enforces the snapshot's `disruption_budgets`, and takes no arguments."""

    name = "pdb"
    accepts: ClassVar[Accepted] = {}

    def __init__(self, arguments: Arguments) -> None:
        del arguments

    def open(self, session: Session) -> None:
        cluster = session.cluster
        budgets = session.snapshot.budgets
        quirks = not session.hooks.strict

        def covers(t: int) -> list[int]:
            eq_class = cluster.eq_class[t]
            return [
                i
                for i, b in enumerate(budgets)
                if b.matches
                and b.namespace == eq_class.shape.namespace
                and meets(eq_class.labels, b.matches)
            ]

        def spare(_: Any, candidates: Sequence[int]) -> list[int]:
            left = allowances()
            out = []
            for t in candidates:
                shape = cluster.eq_class[t].shape
                if quirks and not shape.labels and not shape.role:
                    continue
                of = covers(t)
                for i in of:
                    left[i] -= 1
                if all(left[i] >= 0 for i in of):
                    out.append(t)
            return out

        def allowances() -> list[int]:
            total, running = [0] * len(budgets), [0] * len(budgets)
            if budgets:
                for t, status in enumerate(cluster.status):
                    for i in covers(t):
                        total[i] += 1
                        running[i] += status == j.RUNNING
            out = []
            for i, b in enumerate(budgets):
                if b.min_available:
                    out.append(running[i] - part_of(b.min_available, total[i]))
                else:
                    down = total[i] - running[i]
                    out.append(part_of(b.max_unavailable or "0", total[i]) - down)
            return out

        def victims() -> list[int]:
            status = cluster.status
            return spare(None, [t for t in range(len(status)) if status[t] == j.RUNNING])

        for hook in ("preemptable", "reclaimable"):
            session.add(hook, self.name, spare)
        if quirks:
            session.add("victims", self.name, victims)
