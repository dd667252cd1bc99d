"""The head remembers the drivers that have ended most recently."""

from __future__ import annotations

from typing import Any

from tests.world.clock import ManualClock
from tests.world.head import make_head

from phalanx.head import drivers as drivers_module
from phalanx.head.actors.table import ActorRecord
from phalanx.protocol.cluster_messages import JobKnown


def test_the_latest_are_remembered_and_those_whose_actors_live(monkeypatch):
    monkeypatch.setattr(drivers_module, "KEEP_ENDED", 3)
    sent: list[Any] = []
    head = make_head(lambda to, message: sent.append(message), ManualClock(10.0))
    jobs = [head.drivers.new() for _ in range(10)]
    for job in jobs:
        head.drivers.known(JobKnown(job, b"node-a-11111" + job, [], "/", "ns", b"", False))
    first = jobs[0]
    head.actor_table.register(
        ActorRecord(
            actor=b"kept",
            owner=b"node-a-11111" + first,
            job=first,
            creation=b"",
            class_name="A",
            place={},
            detached=True,
        )
    )
    for job in jobs[:-1]:
        head.drivers.driver_gone(b"node-a-11111" + job)
        head.drivers.driver_gone(b"node-a-11111" + job)  # said twice
    rows = {row.job_id: row.state for row in head.drivers.rows(with_ended=True)}
    kept = [first, *jobs[7:9]]
    assert rows == {job.hex(): "ENDED" for job in kept} | {jobs[9].hex(): "RUNNING"}
