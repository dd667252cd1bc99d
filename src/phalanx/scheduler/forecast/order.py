"""The order in which waiting podgroups are promised places. It is kept from plan to plan.

The jobs of one queue are in the scheduler's order. The first jobs of all queues come before the
second jobs of all queues, and so on. Among these first (or second) jobs, the scheduler's order of
queues decides.

The order of queues changes whenever work starts or ends, so without a further rule a promise could
be postponed forever. Therefore a podgroup with a promise stays ahead of all podgroups that came
later, of any queue, as long as the order within its own queue is unchanged.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence

from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.session import Session


def is_plannable(job: Job) -> bool:
    """Whether plans include the job. They leave out jobs that are bound to a network domain, jobs
    with subgroups, and jobs for which evictions have made room.
    """
    counts = job.counts
    return bool(
        counts[j.PENDING] > counts[j.IDLE_PENDING]
        and not counts[j.PIPELINED]
        and not job.has_subgroups
        and not job.has_topology()
    )


def waiting_by_queue(session: Session) -> dict[int, list[Job]]:
    """Return all jobs of open queues that plans include, by queue. Invalid jobs are included."""
    cluster = session.cluster
    found: dict[int, list[Job]] = {
        queue: [] for queue, spec in enumerate(cluster.queues) if spec.state == "Open"
    }
    for job in cluster.jobs:
        if job.queue in found and is_plannable(job):
            found[job.queue].append(job)
    return found


def first_of(session: Session, jobs: Sequence[Job], most: int) -> list[Job]:
    """Return the first `most` valid jobs, in the scheduler's order. `jobs`: jobs of one queue."""
    found = session.first_jobs(jobs, most)
    if all(map(session.job_valid, found)):
        return found  # usually all jobs are valid, so only these need a check
    return session.first_jobs(list(filter(session.job_valid, jobs)), most)


def in_order(session: Session, jobs: Iterable[Job], before: Mapping[str, int]) -> list[Job]:
    """Return the jobs in the order in which they are promised places.

    `before`: the positions of jobs in the order of the last promises.
    """
    by_queue: dict[int, list[Job]] = {}
    for job in jobs:
        by_queue.setdefault(job.queue, []).append(job)
    for mine in by_queue.values():
        mine.sort(key=session.job_key)
    queues = sorted(by_queue, key=functools.cmp_to_key(session.compare_queues))
    out = [
        (place, rank, turn, job)
        for turn, queue in enumerate(queues)
        for rank, (job, place) in enumerate(
            zip(by_queue[queue], _places(by_queue[queue], before), strict=True)
        )
    ]
    out.sort()  # no two (rank, turn) pairs are equal, so jobs themselves are never compared
    return [one[-1] for one in out]


def _places(mine: list[Job], before: Mapping[str, int]) -> list[int]:
    """Return the position that each job of one queue had in the order of the last promises. A job
    that had none gets the position of the next job behind it that had one; without such a job, the
    last position. If the order within the queue has changed, all jobs of the queue get the last
    position.
    """
    after_all = len(before)
    places = [before.get(job.uid, -1) for job in mine]
    had = [place for place in places if place >= 0]
    if had != sorted(had):
        return [after_all] * len(mine)
    following = after_all
    for at in range(len(places) - 1, -1, -1):
        following = places[at] = places[at] if places[at] >= 0 else following
    return places
