"""The request of a gang for room, which an action makes by evictions."""

from __future__ import annotations

from dataclasses import dataclass

from phalanx.scheduler.cycle.jobs import Job


@dataclass(frozen=True, kw_only=True)
class EvictionAsk:
    """A whole gang's request for room in one domain, which is taken from its own queue
    (`within_queue`) or from other queues.
    """

    job: Job
    within_queue: bool
    domain: str
