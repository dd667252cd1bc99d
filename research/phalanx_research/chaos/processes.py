"""A simulated node's worker processes. They are started, killed and reaped as by a fork server."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from phalanx.observe.log_lines import LogPiece
from phalanx.protocol.node_messages import LogLine
from phalanx_research.chaos.hosts import Host
from phalanx_research.chaos.worker import SimWorker

_SIGNAL_S = 0.001
_REAP_S = 0.002


class SimWorkers:
    """The workers of one node, in place of worker_processes.ForkEffects."""

    def __init__(
        self,
        host: Host,
        rng: random.Random,
        start_s: tuple[float, float],
        make: Callable[[bytes, Callable[[str, float], None]], SimWorker],
        reaped: Callable[[bytes, str], None],
    ) -> None:
        """`start_s`: the range of seconds that a worker needs to start. `make` creates a worker
        with an id; the worker calls back when it ends. `reaped` reports to the node how a worker
        has ended.
        """
        self._host = host
        self._rng = rng
        self._start_s = start_s
        self._make = make
        self._on_reaped = reaped
        self.workers: dict[bytes, SimWorker] = {}

    def fork(self, worker: bytes, environment: dict[str, str]) -> None:
        """Start a worker. It introduces itself when it is ready."""
        made = self.workers[worker] = self._make(worker, partial(self._died, worker))
        delay_s = self._rng.uniform(*self._start_s) * self._host.slowness
        self._host.later(delay_s, made.begin)

    def kill(self, process: bytes) -> None:
        worker = self.workers.get(process)
        if worker is not None:
            self._host.later(_SIGNAL_S, partial(worker.die, "killed"))

    def terminate(self, process: bytes) -> None:
        """Ask a worker to end. It ends after a time that is drawn."""
        worker = self.workers.get(process)
        if worker is not None:
            delay_s = self._rng.choice((_SIGNAL_S, 0.2, 3.0))
            self._host.later(delay_s, partial(worker.die, "signal SIGTERM"))

    def _died(self, worker: bytes, how: str, read_until: float) -> None:
        """Report a worker's end after its last messages have been read."""
        wait_s = max(read_until - self._host.kernel.now, 0.0)
        self._host.later(
            wait_s + self._rng.uniform(0.0, _REAP_S), partial(self._reaped, worker, how)
        )

    def _reaped(self, worker: bytes, how: str) -> None:
        self.workers.pop(worker, None)
        self._on_reaped(worker, f"worker process ended: {how}")


class NoLogs:
    """Takes the place of worker_output.NodeLogs. Simulated workers print nothing."""

    def append(self, worker: str, line: LogLine) -> None:
        """Do nothing: there are no logs."""

    def read(self, worker: str, file: int, offset: int, limit: int) -> LogPiece:
        """Return an empty piece of a log."""
        return LogPiece()
