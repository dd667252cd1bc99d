"""In which order work that waits is promised its places, and keeps that order from plan to plan.

Within a queue the scheduler's order of jobs holds. Between queues the first of each queue come
first, in the scheduler's order of queues, then the second of each, and so on. That order moves
whenever something starts or ends; so who was planned once stays before those who came after, of
whatever queue, as long as each queue's own order stays: else a promise could be put off for ever.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from phalanx.batch import jobs as j
from phalanx.batch.jobs import Job
from phalanx.batch.session import Session


def waits(job: Job) -> bool:
    """Whether a plan can tell when the job starts: not for those that a network domain binds, nor
    for parts that are gangs of their own, nor where evictions have made room for it."""
    counts = job.counts
    return bool(
        counts[j.PENDING] > counts[j.IDLE_PENDING]
        and not counts[j.PIPELINED]
        and not job.has_subgroups
        and not job.has_topology()
    )


class WaitingOrder:
    """Remembers the order in which places were promised last."""

    def __init__(self) -> None:
        self._before: dict[str, int] = {}
        """Places of those that were planned last."""

    def sorted(self, session: Session, jobs: Iterable[Job]) -> list[Job]:
        """The jobs in the order in which they are promised places."""
        by_queue: dict[int, list[Job]] = {}
        for job in jobs:
            by_queue.setdefault(job.queue, []).append(job)
        for mine in by_queue.values():
            mine.sort(key=session.job_key)
        queues = sorted(by_queue, key=functools.cmp_to_key(session.compare_queues))
        known = {queue: self._places(mine) for queue, mine in by_queue.items()}
        out = [
            (place, rank, turn, job)
            for turn, queue in enumerate(queues)
            for rank, (job, place) in enumerate(zip(by_queue[queue], known[queue], strict=True))
        ]
        out.sort()  # no two have one rank and one turn, so jobs are never compared
        return [one[-1] for one in out]

    def remember(self, jobs: Iterable[Job]) -> None:
        """They were promised places in this order."""
        self._before = {job.uid: place for place, job in enumerate(jobs)}

    def _places(self, mine: list[Job]) -> list[int]:
        """For each job of one queue the place that it had; for a new one that of the next behind
        it that had one, or behind all; behind all for the whole queue where its order moved."""
        after_all = len(self._before)
        places = [self._before.get(job.uid, -1) for job in mine]
        had = [place for place in places if place >= 0]
        if had != sorted(had):
            return [after_all] * len(mine)
        following = after_all
        for at in range(len(places) - 1, -1, -1):
            following = places[at] = places[at] if places[at] >= 0 else following
        return places
