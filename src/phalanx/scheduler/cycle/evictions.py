"""The request of a gang for room that evictions must make. Actions ask plugins with it."""

from __future__ import annotations

from dataclasses import dataclass

from phalanx.scheduler.cycle.jobs import Job


@dataclass(frozen=True, kw_only=True)
class EvictionAsk:
    """A gang's request for room in one domain. With `within_queue`, the room is taken from work of
    the gang's own queue, otherwise from work of other queues.
    """

    job: Job
    within_queue: bool
    domain: str
