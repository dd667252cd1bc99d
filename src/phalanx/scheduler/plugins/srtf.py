"""The plugin srtf: shortest remaining time first. A job may preempt longer jobs."""

from __future__ import annotations

from typing import ClassVar

from phalanx.scheduler.cycle.accepted import Accepted
from phalanx.scheduler.cycle.arguments import Arguments
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.plugin_parts.service import Service, rank_jobs


class ShortestRemainingTimeFirst:
    """The plugin srtf. It takes no arguments. Jobs that do not declare `run_time_s` come last."""

    name = "srtf"
    accepts: ClassVar[Accepted] = {}

    def __init__(self, arguments: Arguments) -> None:
        del arguments

    def open(self, session: Session) -> None:
        rank_jobs(session, self.name, Service(session).remaining_s, preemptive=True)
