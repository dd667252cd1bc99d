"""The plugin fifo: orders jobs by the time of their submission.

A job that does not fit is skipped. With `strict`, no later job of its queue starts before it.
"""

from __future__ import annotations

from typing import ClassVar

from phalanx.scheduler.cycle.accepted import FLAG, Accepted
from phalanx.scheduler.cycle.arguments import Arguments, flag
from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass
from phalanx.scheduler.cycle.jobs import PENDING, Job
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.plugin_parts.service import rank_jobs


class FirstInFirstOut:
    """The plugin fifo. Argument: `strict` (false)."""

    name = "fifo"
    accepts: ClassVar[Accepted] = {"strict": FLAG}

    def __init__(self, arguments: Arguments) -> None:
        self._strict = flag(arguments, "strict", False)

    def open(self, session: Session) -> None:
        rank_jobs(session, self.name, _arrival, preemptive=False)
        if not self._strict:
            return
        waiting: dict[int, list[Job]] = {}
        for job in sorted(session.cluster.jobs, key=lambda job: (_arrival(job), job.uid)):
            if job.counts[PENDING] and session.cluster.queues[job.queue].state == "Open":
                waiting.setdefault(job.queue, []).append(job)

        def room(queue: int, job: Job, eq_class: EquivalenceClass) -> int:
            ahead = waiting.get(queue, [])
            while ahead and ahead[0] is not job and not ahead[0].counts[PENDING]:
                ahead.pop(0)
            return len(job.tasks) if not ahead or ahead[0] is job else 0

        session.add("room", self.name, room)


def _arrival(job: Job) -> float:
    return float("-inf") if job.spec.created is None else job.spec.created
