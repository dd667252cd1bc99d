"""Preempt for whole gangs: room in one domain, from gangs of lower priority in the same queue."""

from __future__ import annotations

from phalanx.batch.actions.gang_eviction import GangEviction
from phalanx.batch.session import Session


def run(session: Session) -> None:
    GangEviction(session, "gangpreempt", within_queue=True).run()
