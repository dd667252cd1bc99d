"""Keeps the jobs of drivers: assigns their ids, gives workers on every node the descriptions of
these jobs, and notes when a job has ended.
"""

from __future__ import annotations

import contextlib
from typing import Any, Protocol

from phalanx.head.actors.table import ActorRecord
from phalanx.head.clock import Clock
from phalanx.head.outbox import Outbox
from phalanx.head.state_store import StateStore
from phalanx.model.ids import PREFIX_BYTES
from phalanx.model.packages import VARIABLE as PACKAGES
from phalanx.model.packages import read_uris
from phalanx.model.principals import JOB, Principal
from phalanx.model.rows.cluster import DriverInfo
from phalanx.protocol.cluster_messages import EnvironmentKnown, JobEnded, JobKnown
from phalanx.protocol.requests.cluster import NewDriverJob
from phalanx.protocol.requests.request import Asker, Entry

KEEP_ENDED = 1_000
"""The number of ended drivers that are remembered. Drivers whose detached actors are alive do not
count.
"""


class DriverEffects(Protocol):
    """Requests that Drivers makes when a driver has ended."""

    def process_ended(self, process: bytes, is_driver: bool, now: float) -> None:
        """Release everything that a process owned, because the process has ended or its node has
        died.
        """
        ...

    def detached_actors(self, job: bytes) -> list[ActorRecord]:
        """Return the living actors of a job that outlive its driver."""
        ...


class Drivers:
    """The jobs of drivers, by their ids of 4 bytes."""

    def __init__(
        self, outbox: Outbox, state_store: StateStore, clock: Clock, effects: DriverEffects
    ) -> None:
        self._outbox = outbox
        self._state_store = state_store
        self._clock = clock
        self._effects = effects
        self.count = 0
        self._known: dict[bytes, JobKnown] = {}
        self._started: dict[bytes, float] = {}
        self._ended: dict[bytes, float] = {}
        self._described: dict[bytes, JobKnown] = {}
        """The descriptions of the jobs that ended most recently, for display."""
        self.environments: dict[bytes, EnvironmentKnown] = {}
        self._packages: dict[bytes, set[str]] = {}
        """The packages that the environments of each job name."""
        self._introduced: dict[bytes, set[bytes]] = {}

    def entries(self) -> list[Entry]:
        """Return the requests that this object answers, each with its handler."""
        return [NewDriverJob.handled_by(self._new_driver_job)]

    def _new_driver_job(self, asker: Asker[bytes], request: NewDriverJob) -> bytes:
        return self.new()

    def new(self) -> bytes:
        """Return the id of a new job. No other job has this id."""
        self.count += 1
        job = self.count.to_bytes(4, "big")
        self._started[job] = self._clock.wall()
        self._state_store.put_job_count(self.count)
        return job

    def known(self, job: JobKnown) -> None:
        """Store the description of a driver's job, which the job's workers need."""
        self._known[job.job] = job
        self._state_store.put_job(job)

    def environment_known(self, message: EnvironmentKnown) -> None:
        """Store an environment that the work of a driver's job uses."""
        self.environments[message.key] = message
        if text := message.variables.get(PACKAGES):
            # Malformed text makes the work that uses the environment fail, not the head.
            with contextlib.suppress(ValueError, TypeError):
                named = self._packages.setdefault(message.job, set())
                named.update(uri.sha256 for uri in read_uris(text))

    def packages(self) -> set[str]:
        """Return the packages of jobs that are not over. A job is not over while it has detached
        actors.
        """
        return set().union(*self._packages.values())

    def principal_of(self, name: str) -> Principal | None:
        """Return the principal of a driver; None if the driver is not known. `name`: the id of the
        driver's job in hex.
        """
        try:
            known = self._known.get(bytes.fromhex(name))
        except ValueError:
            return None
        return None if known is None else known.principal

    def in_job(self, job: str) -> bytes | None:
        """Return the id of the driver that runs in a submitted job. If several drivers run in the
        job, return the id of the last to join; if none runs, return None.
        """
        found = [
            known.driver
            for known in self._known.values()
            if known.job not in self._ended
            and known.principal is not None
            and known.principal.kind == JOB
            and known.principal.name == job
        ]
        return found[-1] if found else None

    def priority_of(self, name: str) -> int:
        """Return the priority of a driver's work. `name`: the id of the driver's job in hex."""
        known = self._known.get(bytes.fromhex(name))
        return 0 if known is None else known.priority

    def restore(self, count: int, jobs: list[JobKnown]) -> None:
        """Restore what the head knew before it restarted."""
        self.count = count
        self._known = {job.job: job for job in jobs}

    def introduce(self, prefix: bytes, job: bytes, environment: bytes) -> None:
        """Send a node the description of a driver's job before the node works for that job. A
        description that the node has is not sent again.
        """
        known = self._introduced.setdefault(prefix, set())
        if job in self._known and job not in known:
            known.add(job)
            self._outbox.send(prefix, self._known[job])
        if environment in self.environments and environment not in known:
            known.add(environment)
            self._outbox.send(prefix, self.environments[environment])

    def node_joined(self, prefix: bytes) -> None:
        """Forget which descriptions a joining node was sent, because the node may have lost
        them.
        """
        self._introduced.pop(prefix, None)

    def node_died(self, prefix: bytes) -> None:
        """End the jobs of drivers that were on a dead node."""
        self._introduced.pop(prefix, None)
        for job in list(self._known.values()):
            if job.driver[:PREFIX_BYTES] == prefix and job.job not in self._ended:
                self._effects.process_ended(job.driver, True, self._clock.now())

    def driver_gone(self, driver: bytes) -> None:
        """End a driver's job, except for its detached actors."""
        job = driver[12:]
        if job in self._ended:
            return
        self._ended[job] = self._clock.wall()
        if job in self._known:
            self._described[job] = self._known[job]
        self._end(job, driver, self._effects.detached_actors(job))
        self._forget_oldest()

    def _forget_oldest(self) -> None:
        if len(self._ended) <= KEEP_ENDED:
            return
        oldest = next((job for job in self._ended if job not in self._known), None)
        if oldest is not None:
            del self._ended[oldest]
            self._started.pop(oldest, None)
            self._described.pop(oldest, None)

    def actor_gone(self, job: bytes) -> None:
        """End the other work of an ended job once the job's last detached actor has died."""
        known = self._known.get(job)
        if job in self._ended and known is not None and not self._effects.detached_actors(job):
            self._end(job, known.driver, [])

    def _end(self, job: bytes, driver: bytes, stay: list[ActorRecord]) -> None:
        files = [name for actor in stay for name in actor.files]
        self._outbox.broadcast(JobEnded(job, [actor.actor for actor in stay], driver, files))
        if not stay:
            self._known.pop(job, None)
            self._packages.pop(job, None)
            self._state_store.drop_job(job)

    def clock_stepped(self, step_s: float) -> None:
        """Shift the recorded times after the clock was stepped by this many seconds, so that the
        drivers' run times stay the same.
        """
        for moments in (self._started, self._ended):
            for job in moments:
                moments[job] += step_s

    def warn(self, job: bytes, message: Any) -> None:
        """Send a message to a job's driver."""
        known = self._known.get(job)
        if known is not None:
            self._outbox.post(known.driver, message)

    def rows(self, with_ended: bool = False) -> list[DriverInfo]:
        """Return the running jobs for display and, on request, jobs that ended recently."""
        rows = [self._row(job, 0.0) for job in self._started if job not in self._ended]
        if with_ended:
            rows += [self._row(job, when) for job, when in self._ended.items()]
        return rows

    def _row(self, job: bytes, ended: float) -> DriverInfo:
        known = self._known.get(job) or self._described.get(job)
        described: dict[str, Any] = {}
        if known is not None:
            described = {
                "pid": known.pid,
                "node_id": known.driver[:PREFIX_BYTES].hex(),
                "driver_id": known.driver.hex(),
                "entrypoint": known.entrypoint,
                "namespace": known.namespace,
                "queue": known.queue,
                "priority": known.priority,
            }
        return DriverInfo(
            job_id=job.hex(),
            number=int.from_bytes(job, "big"),
            start_time=self._started.get(job, 0.0),
            end_time=ended,
            state="ENDED" if ended else "RUNNING",
            **described,
        )
