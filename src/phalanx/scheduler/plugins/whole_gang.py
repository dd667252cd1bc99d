"""The plugin whole-gang: evicts the rest of a gang that evictions have broken, because the rest
could not run alone.

When the actions are done, every job that lost tasks and fell below its minimum in this cycle loses
its other running tasks, too. Their room is free for the next cycle. Further victims are first taken
from gangs that are already broken, so that fewer gangs break.
"""

from __future__ import annotations

from typing import ClassVar

from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.accepted import Accepted
from phalanx.scheduler.cycle.arguments import Arguments
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.statement import Statement


class WholeGang:
    """The plugin whole-gang. It takes no arguments."""

    name = "whole-gang"
    accepts: ClassVar[Accepted] = {}

    def __init__(self, arguments: Arguments) -> None:
        del arguments

    def open(self, session: Session) -> None:
        cluster = session.cluster
        whole = {job.index for job in cluster.jobs if job.is_ready()}

        def broken(job: Job) -> bool:
            return job.index in whole and not job.is_ready()

        def closing() -> None:
            hit = {cluster.job_of[t] for t in session.evictions if cluster.job_of[t] >= 0}
            statement = Statement(session)
            for index in sorted(hit):
                job = cluster.jobs[index]
                if broken(job):
                    for t in job.tasks:
                        if cluster.status[t] == j.RUNNING:
                            statement.evict(t, self.name)
            statement.commit()

        session.add("victim_order", self.name, lambda job: not broken(job))
        session.add("closing", self.name, closing)
