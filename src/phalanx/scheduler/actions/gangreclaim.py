"""The action gangreclaim: frees a domain for a whole gang from gangs of other queues."""

from __future__ import annotations

from phalanx.scheduler.actions.gang_eviction import GangEviction
from phalanx.scheduler.cycle.session import Session


def run(session: Session) -> None:
    GangEviction(session, "gangreclaim", within_queue=False).run()
