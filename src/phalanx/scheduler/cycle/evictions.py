"""The request of a gang for room, which actions make by evictions."""

from __future__ import annotations

from dataclasses import dataclass

from phalanx.scheduler.cycle.jobs import Job


@dataclass(frozen=True, kw_only=True)
class EvictionAsk:
    """A gang's request for room in one domain. The room is taken from the gang's own queue
    (`within_queue`) or from other queues.
    """

    job: Job
    within_queue: bool
    domain: str
