"""Imports the code that the first gang or job needs, before it is needed.

The imports take a quarter of a second, which should delay neither the head's start nor a job. So
they run while there is nothing else to do, in parts that take little time each.
"""

from __future__ import annotations

from importlib import import_module

PARTS = (
    "phalanx.scheduler.cycle.specs",
    "phalanx.scheduler.cycle.cluster",
    "phalanx.scheduler.cycle.session",
    "phalanx.scheduler.cycle.cycle",
    "phalanx.scheduler.cycle.kept",
    "phalanx.scheduler.forecast.inquiry",
    "phalanx.scheduler.actions.preempt",
    "phalanx.scheduler.actions.reclaim",
    "phalanx.scheduler.actions.allocate",
    "phalanx.scheduler.actions.backfill",
    "phalanx.manifests.pods",
    "phalanx.head.jobs.lifecycle",
    "phalanx.head.jobs.environment",
    "phalanx.head.jobs.crons",
    "phalanx.head.gangs.cycles",
    "phalanx.head.jobs.job_gangs",
    "phalanx.head.jobs.requests",
    "phalanx.head.gangs.gang_scheduler",
)


class Warming:
    """The parts that are not imported yet."""

    def __init__(self) -> None:
        self._left = list(PARTS)

    def step(self) -> bool:
        """Import the next part. Returns False if no part was left."""
        if not self._left:
            return False
        import_module(self._left.pop(0))
        if not self._left:
            from phalanx.head.gangs.cycles import configuration

            configuration()  # this imports the plugins that the rules name
        return True
