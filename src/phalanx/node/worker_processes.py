"""Starts and ends the worker processes of a node, and remembers why each was ended."""

from __future__ import annotations

from typing import Protocol

from phalanx.node.known_jobs import KnownJobs
from phalanx.node.peers import Peers
from phalanx.node.workers import WorkerRecord
from phalanx.protocol.node_messages import PREEMPTED, Terminate

EXITED, OUT_OF_MEMORY, CRASHED = "exited", "oom", "crashed"
"""How a worker can end, as in `WorkerDied`."""
EXIT_S = 2.0
"""Seconds that a worker has for its exit handlers, including the time for which they wait."""
SLOW = f"it called exit, and its process had not ended {EXIT_S:g} s later"


class ForkEffects(Protocol):
    """Starts and ends processes. Their ends are reported later."""

    def fork(self, worker: bytes, environment: dict[str, str]) -> None:
        """Start a worker process with this id."""
        ...

    def kill(self, process: bytes) -> None:
        """End a process immediately."""
        ...

    def terminate(self, process: bytes) -> None:
        """Ask a process to end, by SIGTERM."""
        ...


class WorkerProcesses:
    """Starts and ends worker processes. The reason why a worker is ended is remembered until its
    process has ended.
    """

    def __init__(self, effects: ForkEffects, peers: Peers, jobs: KnownJobs) -> None:
        self._effects = effects
        self._peers = peers
        self._jobs = jobs
        self._reasons: dict[bytes, tuple[str, str]] = {}
        """For each worker that was asked to end: the reason, and how it ends."""
        self._ends_by: dict[bytes, float] = {}
        """For each worker that has done its work: the time when it is killed if it has not
        ended.
        """

    def start_worker(self, worker: WorkerRecord) -> None:
        """Fork a worker."""
        worker.is_started = True
        self._effects.fork(
            worker.worker_id, self._jobs.variables_of(worker.job, worker.environment)
        )

    def stop_worker(self, worker: WorkerRecord, reason: str, force: bool) -> None:
        """End a worker: with `force` immediately, otherwise after its work. A reason that was noted
        before is kept.
        """
        self._reasons.setdefault(worker.worker_id, (reason, EXITED))
        peer = self._peers.get(worker.worker_id)
        if force or peer is None:
            self._effects.kill(worker.worker_id)
        else:
            peer.post(Terminate(reason))

    def end_worker(self, worker: WorkerRecord, reason: str, force: bool) -> None:
        """End a worker for this reason. The reason replaces any earlier one."""
        self._reasons.pop(worker.worker_id, None)
        self.stop_worker(worker, reason, force)

    def leaves(self, worker: bytes, reason: str) -> None:
        """Note that a worker ends of its own accord, so its end is no crash. A reason that was
        noted before is kept.
        """
        self._reasons.setdefault(worker, (reason, EXITED))

    def finishes(self, worker: bytes, now: float) -> None:
        """Give a worker that has done its work EXIT_S seconds to end.

        Its exit handlers may wait for processes that they have started. Meanwhile the worker holds
        resources for which others wait.
        """
        self._ends_by.setdefault(worker, now + EXIT_S)

    def tick(self, now: float) -> None:
        """Kill workers that take too long to end."""
        for worker in [one for one, at in self._ends_by.items() if now >= at]:
            del self._ends_by[worker]
            self._reasons.setdefault(worker, (SLOW, CRASHED))
            self._effects.kill(worker)

    def warn_worker(self, worker: WorkerRecord) -> None:
        """Ask a preempted worker to end, by SIGTERM."""
        self._reasons[worker.worker_id] = ("it was preempted", PREEMPTED)
        self._effects.terminate(worker.worker_id)

    def kill(self, worker: bytes) -> None:
        """End a worker immediately, because its owner requested it."""
        self._effects.kill(worker)

    def kill_for_memory(self, worker: bytes, reason: str) -> None:
        """End a worker immediately, because memory has run out."""
        self._reasons[worker] = (reason, OUT_OF_MEMORY)
        self._effects.kill(worker)

    def is_preempted(self, worker: bytes) -> bool:
        """Whether a worker must end because it is preempted."""
        return self._reasons.get(worker, ("", ""))[1] == PREEMPTED

    def take_reason(self, worker: bytes) -> tuple[str, str] | None:
        """Return why a worker was ended and how it ended; None if it was not asked to end. Each
        answer is returned once.
        """
        self._ends_by.pop(worker, None)
        return self._reasons.pop(worker, None)
