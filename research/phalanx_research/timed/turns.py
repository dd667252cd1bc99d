"""The order of jobs by their service queues, for the plugin `tiresias`."""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.scheduler.cycle.config import Configuration
from phalanx.scheduler.plugins.tiresias import ServiceQueues, limits_of
from phalanx_research.timed.progress import Work
from phalanx_research.timed.workload import GPU


class Turns:
    """The jobs in the order of their service queues."""

    def __init__(self, queues: ServiceQueues) -> None:
        self._queues = queues
        self._works: dict[str, Work] = {}

    def arrive(self, works: Iterable[Work]) -> None:
        """Add submitted jobs."""
        for work in works:
            self._works[work.uid] = work
            self._queues.arrive((work.uid,))

    def leave(self, work: Work) -> None:
        """Remove a finished job."""
        del self._works[work.uid]
        self._queues.leave((work.uid,))

    def take(self, running: Iterable[Work], now: float) -> list[Work]:
        """Move jobs to the service queues to which they now belong. Returns the jobs whose turn has
        changed.
        """
        self._queues.serve({work.uid: work.ran_by(now) * _gpus(work) for work in running})
        moved = []
        for turn, uid in enumerate(self._queues.order()):
            work = self._works[uid]
            if work.turn != turn:
                work.turn = turn
                moved.append(work)
        return moved

    def keep(self, running: Iterable[Work]) -> None:
        """Put the jobs that run after a cycle before the waiting jobs."""
        self._queues.settle(frozenset(work.uid for work in running))

    def next_fall(self, running: Iterable[Work], now: float) -> float:
        """Return the time at which the first running job reaches the limit of its service queue."""
        falls = [self._queues.falls_in_s(w.uid, w.ran_by(now), _gpus(w)) for w in running]
        return now + min(falls, default=float("inf"))


def turns_of(config: Configuration) -> Turns | None:
    """Return the service queues of a configuration; None if it has no `tiresias`."""
    for tier in config.tiers:
        for option in tier:
            if option.name == "tiresias":
                return Turns(ServiceQueues(limits_of(option.arguments)))
    return None


def _gpus(work: Work) -> float:
    return work.job.amount(GPU) or 1.0
