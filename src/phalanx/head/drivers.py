"""Drivers' jobs at the head: numbers, what their workers need on any node, their ends."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from phalanx.head.actors.table import ActorRecord
from phalanx.model.ids import PREFIX_BYTES
from phalanx.model.lifecycle import DEAD
from phalanx.model.rows.cluster import DriverInfo
from phalanx.protocol.cluster_messages import EnvironmentKnown, JobEnded, JobKnown

if TYPE_CHECKING:
    from phalanx.head.control_plane import ControlPlane


class Drivers:
    """Jobs by their 4 bytes."""

    def __init__(self, shell: ControlPlane) -> None:
        self._shell = shell
        self.count = 0
        self._known: dict[bytes, JobKnown] = {}
        self._started: dict[bytes, float] = {}
        self._ended: dict[bytes, float] = {}
        self.environments: dict[bytes, EnvironmentKnown] = {}
        self._told: dict[bytes, set[bytes]] = {}

    def new(self) -> bytes:
        """The next job's number."""
        self.count += 1
        job = self.count.to_bytes(4, "big")
        self._started[job] = time.time()
        self._shell.state_store.put_job_count(self.count)
        return job

    def known(self, job: JobKnown) -> None:
        """What a job's workers need."""
        self._known[job.job] = job
        self._shell.state_store.put_job(job)

    def restore(self, count: int, jobs: list[JobKnown]) -> None:
        """Know again what the head knew before it restarted."""
        self.count = count
        self._known = {job.job: job for job in jobs}

    def tell(self, prefix: bytes, job: bytes, environment: bytes) -> None:
        """A node is about to work for a job: it must know it."""
        told = self._told.setdefault(prefix, set())
        if job in self._known and job not in told:
            told.add(job)
            self._shell.send(prefix, self._known[job])
        if environment in self.environments and environment not in told:
            told.add(environment)
            self._shell.send(prefix, self.environments[environment])

    def node_joined(self, prefix: bytes) -> None:
        """It may have forgotten everything."""
        self._told.pop(prefix, None)

    def node_died(self, prefix: bytes) -> None:
        """The node's drivers are gone with it."""
        self._told.pop(prefix, None)
        for job in list(self._known.values()):
            if job.driver[:PREFIX_BYTES] == prefix and job.job not in self._ended:
                self._shell.process_ended(job.driver, True, self._shell.clock())

    def driver_gone(self, driver: bytes) -> None:
        """The driver ended: so does its job, but for detached actors."""
        job = driver[12:]
        if job in self._ended:
            return
        self._ended[job] = time.time()
        self._end(job, driver, self._detached(job))

    def actor_gone(self, job: bytes) -> None:
        """A detached actor is dead: the last one of an ended job takes what is left of it."""
        known = self._known.get(job)
        if job in self._ended and known is not None and not self._detached(job):
            self._end(job, known.driver, [])

    def _detached(self, job: bytes) -> list[ActorRecord]:
        actors = self._shell.actor_table.all()
        return [a for a in actors if a.job == job and a.detached and a.state != DEAD]

    def _end(self, job: bytes, driver: bytes, stay: list[ActorRecord]) -> None:
        files = [name for actor in stay for name in actor.files]
        self._shell.broadcast(JobEnded(job, [actor.actor for actor in stay], driver, files))
        if not stay:
            self._known.pop(job, None)
            self._shell.state_store.drop_job(job)

    def warn(self, job: bytes, message: Any) -> None:
        """Tell a job's driver."""
        known = self._known.get(job)
        if known is not None:
            self._shell.post(known.driver, message)

    def rows(self) -> list[DriverInfo]:
        """For people: the jobs that run."""
        return [
            DriverInfo(job_id=job.hex(), number=int.from_bytes(job, "big"), start_time=started)
            for job, started in self._started.items()
            if job not in self._ended
        ]
