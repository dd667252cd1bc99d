"""The plugin tiresias: jobs that got less service come first, in steps. Run times need not be
known.

Modelled on the variant of Tiresias for unknown run times (Gu et al., NSDI 2019). Service is run
time, times the number of GPUs. A job begins in the first of three service queues. It moves to the
next queue when its service reaches 3,250 GPU-seconds, and again at 7,200. The queues are served in
order. Inside a queue, running jobs come before pending ones, so that equal jobs do not keep
replacing each other.

The order of a queue's pending jobs depends on earlier cycles. A caller that decides repeatedly
keeps the order in `ServiceQueues`, and passes each podgroup's `turn`. Without a turn, age decides.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeGuard

from phalanx.scheduler.cycle.accepted import Accepted, Kind
from phalanx.scheduler.cycle.arguments import Arguments
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.plugin_parts.service import Service, rank_jobs

LIMITS = (3_250.0, 7_200.0)
"""The GPU-seconds of service at which a job leaves the first queue, and the second."""
CLOSE = 1e-6
"""Service that is less than this many GPU-seconds below a limit counts as having reached the limit,
because sums of times are not exact.
"""


def _rising(given: Any) -> TypeGuard[Sequence[float]]:
    if not isinstance(given, list | tuple) or not given:
        return False
    if not all(isinstance(x, int | float) and not isinstance(x, bool) for x in given):
        return False
    return given[0] > 0 and all(a < b for a, b in itertools.pairwise(given))


RISING = Kind(says="rising positive numbers", good=_rising)


class Tiresias:
    """The plugin tiresias. Argument: `limits` ([3250, 7200]), in GPU-seconds. There is one more
    queue than there are limits.
    """

    name = "tiresias"
    accepts: ClassVar[Accepted] = {"limits": RISING}

    def __init__(self, arguments: Arguments) -> None:
        self._limits = limits_of(arguments)

    def open(self, session: Session) -> None:
        service = Service(session)

        def key(job: Job) -> tuple[float, bool]:
            if job.spec.turn is not None:
                return (job.spec.turn, False)
            attained = service.attained_s(job) * service.gpus(job)
            level = sum(attained >= limit - CLOSE for limit in self._limits)
            return (level, job.spec.started is None)

        rank_jobs(session, self.name, key, preemptive=True)


def limits_of(arguments: Arguments) -> tuple[float, ...]:
    """Return the numbers of the argument `limits`, ascending; for any other value, the default
    limits.
    """
    given = arguments.get("limits")
    return tuple(float(x) for x in given) if _rising(given) else LIMITS


class ServiceQueues:
    """The jobs in the order of the service queues. The order is kept between events. Jobs are named
    by their uid.
    """

    def __init__(self, limits: Sequence[float] = LIMITS) -> None:
        self._limits = tuple(limits)
        self._queues: list[list[str]] = [[] for _ in range(len(limits) + 1)]
        self._level: dict[str, int] = {}

    def arrive(self, uids: Iterable[str]) -> None:
        """Append new jobs to the first queue."""
        for uid in uids:
            self._queues[0].append(uid)
            self._level[uid] = 0

    def leave(self, uids: Iterable[str]) -> None:
        """Remove jobs that have ended."""
        for uid in uids:
            self._queues[self._level.pop(uid)].remove(uid)

    def serve(self, service: Mapping[str, float]) -> None:
        """Move each running job that has reached its queue's limit to the end of the next queue,
        one queue at a time. `service`: the GPU-seconds that each job has attained, in order of
        arrival.
        """
        for uid, attained in service.items():
            level = self._level[uid]
            if level < len(self._limits) and attained >= self._limits[level] - CLOSE:
                self._queues[level].remove(uid)
                self._queues[level + 1].append(uid)
                self._level[uid] = level + 1

    def order(self) -> list[str]:
        """Return all jobs in the order of service. A job's position in this order is the `turn` of
        its podgroup.
        """
        return [uid for queue in self._queues for uid in queue]

    def settle(self, running: frozenset[str]) -> None:
        """Put running jobs before waiting jobs in each queue. Apart from this, the order stays the
        same.
        """
        for i, queue in enumerate(self._queues):
            front = [uid for uid in queue if uid in running]
            self._queues[i] = front + [uid for uid in queue if uid not in running]

    def falls_in_s(self, uid: str, ran_s: float, gpus: float) -> float:
        """Return the seconds until a running job reaches its queue's limit; infinite in the last
        queue.

        The limit is checked when the job has run for a whole number of seconds.
        """
        level = self._level[uid]
        if level == len(self._limits):
            return math.inf
        return math.ceil(self._limits[level] / gpus) - ran_s
