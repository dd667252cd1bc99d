"""The action gangpreempt: frees a domain for a whole gang from lower-priority gangs of its
queue."""

from __future__ import annotations

from phalanx.scheduler.actions.gang_eviction import GangEviction
from phalanx.scheduler.cycle.session import Session


def run(session: Session) -> None:
    GangEviction(session, "gangpreempt", within_queue=True).run()
