"""The plugin srsf: shortest remaining service first. The service is the remaining run time, times
the number of GPUs.

A job with few GPUs comes before an equally long job with many GPUs. A job may preempt jobs that
come after it.
"""

from __future__ import annotations

from typing import ClassVar

from phalanx.scheduler.cycle.accepted import Accepted
from phalanx.scheduler.cycle.arguments import Arguments
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.plugin_parts.service import Service, rank_jobs


class ShortestRemainingServiceFirst:
    """The plugin srsf. It takes no arguments. Jobs that do not declare `run_time_s` come last. A
    job without GPUs counts as one with a single GPU.
    """

    name = "srsf"
    accepts: ClassVar[Accepted] = {}

    def __init__(self, arguments: Arguments) -> None:
        del arguments

    def open(self, session: Session) -> None:
        service = Service(session)

        def key(job: Job) -> float:
            return service.remaining_s(job) * service.gpus(job)

        rank_jobs(session, self.name, key, preemptive=True)
