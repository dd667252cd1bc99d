"""Reclaim for whole gangs: room in one domain, from gangs of other queues."""

from __future__ import annotations

from phalanx.batch.actions.gang_eviction import GangEviction
from phalanx.batch.session import Session


def run(session: Session) -> None:
    GangEviction(session, "gangreclaim", within_queue=False).run()
