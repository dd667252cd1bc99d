"""Shortest remaining service first: jobs by the time they have still to run, times their GPUs.

A job of few GPUs comes before one as long of many; what is behind gives way.
"""

from __future__ import annotations

from typing import ClassVar

from phalanx.scheduler.cycle.accepted import Accepted
from phalanx.scheduler.cycle.arguments import Arguments
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.plugin_parts.service import Service, rank_jobs


class ShortestRemainingServiceFirst:
    """No arguments. Jobs that do not tell their `run_time_s` come last; one without GPUs counts as
    one of one GPU."""

    name = "srsf"
    accepts: ClassVar[Accepted] = {}

    def __init__(self, arguments: Arguments) -> None:
        del arguments

    def open(self, session: Session) -> None:
        service = Service(session)

        def key(job: Job) -> float:
            return service.remaining_s(job) * service.gpus(job)

        rank_jobs(session, self.name, key, preemptive=True)
