"""The plugin conformance: protects work that the cluster itself needs from eviction.

Source: Volcano's conformance plugin. It protects the tasks of jobs with the priority class
system-cluster-critical or system-node-critical, and all tasks in the namespace kube-system.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from phalanx.scheduler.cycle.accepted import Accepted
from phalanx.scheduler.cycle.arguments import Arguments
from phalanx.scheduler.cycle.session import Session

CRITICAL = frozenset({"system-cluster-critical", "system-node-critical"})


class Conformance:
    """The plugin conformance. It takes no arguments."""

    name = "conformance"
    accepts: ClassVar[Accepted] = {}

    def __init__(self, arguments: Arguments) -> None:
        del arguments

    def open(self, session: Session) -> None:
        cluster = session.cluster

        def spare(_: Any, candidates: Sequence[int]) -> list[int]:
            return [t for t in candidates if not critical(t)]

        def critical(t: int) -> bool:
            if cluster.tasks[t].namespace == "kube-system":
                return True
            return cluster.job_of[t] >= 0 and session.job(t).spec.priority_class in CRITICAL

        for hook in ("preemptable", "reclaimable", "evictable"):
            session.add(hook, self.name, spare)
