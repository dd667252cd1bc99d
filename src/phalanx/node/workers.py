"""The workers of a node: which are idle, by job and environment, and how many may be idle."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

WorkerKind = tuple[bytes, bytes, bool]
"""The kind of a worker, as (job, environment, whether the work has devices). Workers of one kind
can replace each other.
"""

IDLE_S = 1.0
"""Seconds after which an idle worker may be ended. It is ended if more workers are idle than the
soft limit.
"""
MIN_STARTING = 8
"""The number of workers that may always be starting at the same time, however low the soft limit
is.
"""


class WorkerRecord(msgspec.Struct, kw_only=True, eq=False):
    """A worker process, from the decision to start it until its end."""

    worker_id: bytes
    job: bytes = b""
    environment: bytes = b""
    has_devices: bool | None = None
    """Whether the worker's work has devices; None before its first work."""
    pid: int = 0
    forked_as: int = 0
    """The pid of the process that the fork server has forked, and that runs the worker in a
    container; 0 if the worker itself was forked.
    """
    is_started: bool = False
    is_ready: bool = False
    is_leaving: bool = False
    lease: int = 0
    idle_since: float = 0.0


class WorkerPool:
    """The workers of a node by id, and those that are idle.

    A worker serves the tasks of one job and one environment, and either tasks with devices or tasks
    without, because libraries look for devices only once. The worker that was used last is taken
    first, so that the other workers can end. `make_id(job)` returns 16 bytes that no other process
    has.
    """

    def __init__(
        self, soft_limit: int, make_id: Callable[[bytes], bytes], max_workers: int = 0
    ) -> None:
        """`soft_limit`: the number of workers that may be idle for long. `max_workers`: the largest
        number of processes; 0 for any number. Actors leave `soft_limit` of these processes to
        tasks, but may always have half of all.
        """
        self._soft_limit = soft_limit
        self.max_workers = max_workers
        self.max_actors = max(max_workers - soft_limit, max_workers // 2, 1) if max_workers else 0
        """The largest number of workers that may be actors; 0 for any number."""
        self._make_id = make_id
        self._workers: dict[bytes, WorkerRecord] = {}
        self._idle: list[WorkerRecord] = []
        self._starting = 0
        self._most_starting = max(MIN_STARTING, 2 * soft_limit)

    def get(self, worker_id: bytes) -> WorkerRecord | None:
        """Return the worker with this id."""
        return self._workers.get(worker_id)

    def all(self) -> list[WorkerRecord]:
        """Return every worker, oldest first."""
        return list(self._workers.values())

    def counts(self) -> dict[str, int]:
        """Return how many workers are starting, idle and busy."""
        starting = sum(not worker.is_ready for worker in self._workers.values())
        idle = sum(worker.is_ready for worker in self._idle)
        return {
            "starting": starting,
            "idle": idle,
            "busy": len(self._workers) - starting - idle,
        }

    def new(
        self, job: bytes, environment: bytes = b"", has_devices: bool | None = None
    ) -> WorkerRecord:
        """Return a record of a process that will be started."""
        worker = WorkerRecord(
            worker_id=self._make_id(job),
            job=job,
            environment=environment,
            has_devices=has_devices,
        )
        self._workers[worker.worker_id] = worker
        self._starting += 1
        return worker

    def prestart(self, job: bytes) -> WorkerRecord:
        """Return the record of a new worker of a job. The worker will be idle until it is
        needed.
        """
        worker = self.new(job)
        worker.is_started = True
        self._idle.append(worker)
        return worker

    def take(self, job: bytes, environment: bytes, has_devices: bool = False) -> WorkerRecord:
        """Return an idle worker of this kind or, without one, a new record. The kind is the job,
        the environment, and whether the worker sees devices.
        """
        worker = self._fitting(job, environment, has_devices)
        if worker is None:
            return self.new(job, environment, has_devices)
        self._idle.remove(worker)
        worker.has_devices = has_devices
        return worker

    def has_idle(self, job: bytes, environment: bytes, has_devices: bool = False) -> bool:
        """Whether an idle worker of this kind exists. See `take` for the kinds."""
        return self._fitting(job, environment, has_devices) is not None

    def _fitting(self, job: bytes, environment: bytes, has_devices: bool) -> WorkerRecord | None:
        for worker in reversed(self._idle):
            if (worker.job, worker.environment) == (job, environment) and worker.has_devices in (
                has_devices,
                None,
            ):
                return worker
        return None

    @property
    def may_start(self) -> bool:
        """Whether another process may be started, because few enough processes are starting now."""
        return self._starting < self._most_starting

    def retire(self, worker_id: bytes) -> None:
        """Give no more work to a process whose connection has ended, because the process is about
        to end.
        """
        worker = self._workers.get(worker_id)
        if worker is not None:
            worker.is_leaving = True
            if worker in self._idle:
                self._idle.remove(worker)

    def put_back(self, worker: WorkerRecord, now: float) -> None:
        """Make a worker idle."""
        if worker.worker_id in self._workers and not worker.is_leaving:
            worker.idle_since = now
            self._idle.append(worker)

    def ready(
        self, worker_id: bytes, pid: int, now: float, forked_as: int = 0
    ) -> WorkerRecord | None:
        """Note that a worker's process has introduced itself. `forked_as`: see WorkerRecord."""
        worker = self._workers.get(worker_id)
        if worker is not None:
            if not worker.is_ready:
                self._starting -= 1
            worker.is_ready = True
            worker.pid, worker.forked_as = pid, forked_as
            worker.idle_since = now
        return worker

    def remove(self, worker_id: bytes) -> WorkerRecord | None:
        """Forget a worker whose process has ended."""
        worker = self._workers.pop(worker_id, None)
        if worker is not None and not worker.is_ready:
            self._starting -= 1
        if worker is not None and worker in self._idle:
            self._idle.remove(worker)
        return worker

    def surplus(self, now: float) -> list[WorkerRecord]:
        """Return the idle workers that must end: those beyond the soft limit, if they have been
        idle for IDLE_S seconds.
        """
        excess = len(self._idle) - self._soft_limit
        old = [w for w in self._idle if w.is_ready and now - w.idle_since > IDLE_S]
        chosen = old[: max(excess, 0)]
        for worker in chosen:
            self._idle.remove(worker)
            worker.is_leaving = True
        return chosen

    def of_job(self, job: bytes) -> list[WorkerRecord]:
        """Return all workers that serve this job."""
        return [w for w in self._workers.values() if w.job == job]
