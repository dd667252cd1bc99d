"""Who asks for room that others must leave."""

from __future__ import annotations

from dataclasses import dataclass

from phalanx.scheduler.cycle.jobs import Job


@dataclass(frozen=True, kw_only=True)
class EvictionAsk:
    """A whole gang asks, from its own queue (`within_queue`) or from others, in one domain."""

    job: Job
    within_queue: bool
    domain: str
