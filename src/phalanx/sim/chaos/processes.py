"""A simulated node's worker processes: forked, killed, reaped, as the fork server does it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from phalanx.sim.chaos.worker import SimWorker

if TYPE_CHECKING:
    from phalanx.sim.chaos.node import SimNode

_SIGNAL_S = 0.001
_REAP_S = 0.002


class SimWorkers:
    """See worker_processes.ForkEffects."""

    def __init__(self, node: SimNode) -> None:
        self._node = node
        self._rng = node.world.kernel.rng(f"processes {node.name}")
        self.workers: dict[bytes, SimWorker] = {}

    def fork(self, worker: bytes, environment: dict[str, str]) -> None:
        """See ForkEffects. It introduces itself when it is ready."""
        node = self._node
        made = self.workers[worker] = SimWorker(node, worker)
        delay_s = self._rng.uniform(*node.world.options.start_s) * node.host.slowness
        node.host.later(delay_s, made.begin)

    def kill(self, process: bytes) -> None:
        """See ForkEffects."""
        worker = self.workers.get(process)
        if worker is not None:
            self._node.host.later(_SIGNAL_S, partial(worker.die, "killed"))

    def terminate(self, process: bytes) -> None:
        """See ForkEffects. It ends soon, or when it pleases."""
        worker = self.workers.get(process)
        if worker is not None:
            delay_s = self._rng.choice((_SIGNAL_S, 0.2, 3.0))
            self._node.host.later(delay_s, partial(worker.die, "signal SIGTERM"))

    def died(self, worker: SimWorker, how: str, read_until: float) -> None:
        """A worker's process has ended. What it sent last is read before its end is known."""
        node = self._node
        wait_s = max(read_until - node.world.kernel.now, 0.0)
        reap = partial(self._reaped, worker.worker_id, how)
        node.host.later(wait_s + self._rng.uniform(0.0, _REAP_S), partial(node.guarded, reap))

    def _reaped(self, worker: bytes, how: str) -> None:
        node = self._node
        self.workers.pop(worker, None)
        if node.workers.is_preempted(worker):
            node.world.promises.preempted(worker)
        node.ended.exited(worker, f"worker process ended: {how}")


class NoLogs:
    """See local_processes.WorkerLogs. Simulated workers print nothing."""

    def append(self, pid: int, line: str) -> None:
        """See WorkerLogs."""
