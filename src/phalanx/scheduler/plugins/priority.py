"""The plugin priority: work of higher priority goes first, and work of lower priority is preempted.

Source: Volcano's priority plugin. Tasks, jobs and subjobs are ordered by descending priority. A
victim in another job must have a lower job priority, also without what `--nice` subtracted. A
victim in the same job must have a lower task priority. A job counts as starving until all of its
tasks are placed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.accepted import Accepted
from phalanx.scheduler.cycle.arguments import Arguments
from phalanx.scheduler.cycle.evictions import EvictionAsk
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.session import Session


class Priority:
    """The plugin priority. It takes no arguments."""

    name = "priority"
    accepts: ClassVar[Accepted] = {}

    def __init__(self, arguments: Arguments) -> None:
        del arguments

    def open(self, session: Session) -> None:
        cluster = session.cluster
        tasks = cluster.tasks

        def victims(preemptor: int, candidates: Sequence[int]) -> list[int]:
            mine = session.job(preemptor)
            priority = tasks[preemptor].priority
            out = []
            for t in candidates:
                if cluster.job_of[t] < 0:
                    continue
                theirs = session.job(t)
                if theirs is not mine:
                    if theirs.yields_to(mine):
                        out.append(t)
                elif tasks[t].priority < priority:
                    out.append(t)
            return out

        def evictable(ask: EvictionAsk, candidates: Sequence[int]) -> list[int]:
            if not ask.within_queue:
                return list(candidates)
            return [t for t in candidates if session.job(t).yields_to(ask.job)]

        def starving(job: Job) -> bool:
            return job.ready_count() + job.counts[j.PIPELINED] < len(job.tasks)

        hooks: tuple[tuple[str, Any], ...] = (
            ("task_order", lambda t: -tasks[t].priority),
            ("job_order", lambda job: -job.priority),
            ("subjob_order", lambda sub: -sub.priority),
            ("preemptable", victims),
            ("evictable", evictable),
            ("job_starving", starving),
        )
        for hook, fn in hooks:
            session.add(hook, self.name, fn)
