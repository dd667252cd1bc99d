"""The order of the waiting podgroups in each queue, and the factors from which the order
follows.
"""

from __future__ import annotations

import msgspec

from phalanx.scheduler.cycle.cycle import decide
from phalanx.scheduler.cycle.jobs import PENDING, Job
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.specs import Snapshot


class WaitingGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A waiting podgroup. The group with `position` 1 is next in its queue. `factors`: the numbers
    on which plugins base the group's position, by the names that plugins give them.
    """

    podgroup: str
    queue: str
    user: str
    position: int
    priority: int
    waited_s: float | None
    """Seconds since the podgroup was created; None if the creation time is unknown."""
    factors: dict[str, float]


def waiting_groups(snapshot: Snapshot) -> list[WaitingGroup]:
    """Return all waiting podgroups, queue by queue, in the queue's order. No cycle is run."""
    idle = msgspec.structs.replace(snapshot.config, actions=())
    session, _ = decide(msgspec.structs.replace(snapshot, config=idle), explains=False)
    names = [queue.name for queue in session.cluster.queues]
    return [
        WaitingGroup(
            podgroup=job.uid,
            queue=names[job.queue],
            user=job.spec.user,
            position=position,
            priority=job.priority,
            waited_s=None if job.spec.created is None else snapshot.now - job.spec.created,
            factors={k: v for fn in session.hooks.all("factors") for k, v in fn(job).items()},
        )
        for mine in _by_queue(session)
        for position, job in enumerate(mine, 1)
    ]


def waiting_order(session: Session) -> dict[str, int]:
    """Return the position, from 1, of each waiting podgroup in its queue."""
    return {job.uid: at for mine in _by_queue(session) for at, job in enumerate(mine, 1)}


def _by_queue(session: Session) -> list[list[Job]]:
    """Return the waiting jobs of each queue, in the order in which cycles try them."""
    found: dict[int, list[Job]] = {}
    for job in session.cluster.jobs:
        if job.counts[PENDING]:
            found.setdefault(job.queue, []).append(job)
    for mine in found.values():
        mine.sort(key=session.job_key)
    return [found[queue] for queue in sorted(found)]
