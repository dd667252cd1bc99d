"""A simulated node's commands of members of jobs: they do nothing but take time."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import partial

from phalanx.model.exit_codes import KILLED, SIGNALLED
from phalanx.protocol.bundle_messages import Command, Receivers, StartMember
from phalanx_research.chaos.hosts import Host
from phalanx_research.chaos.job_promises import JobPromises

WORK = "work"
"""The simulated command: `work MEAN_S FAILS` runs for a time around MEAN_S seconds, and exits
with 1 in FAILS of all runs."""
_TERMINATED = SIGNALLED + 15
_FORK_S = 0.02


class SimCommands:
    """See job_members.CommandEffects."""

    def __init__(
        self,
        host: Host,
        prefix: bytes,
        promises: JobPromises,
        rng: random.Random,
        exited: Callable[[bytes, int], None],
    ) -> None:
        """`prefix`: of its node. `exited`: gets the node the code of a process that ended."""
        self._host = host
        self._prefix = prefix
        self._promises = promises
        self._rng = rng
        self._exited = exited
        self.running: dict[bytes, StartMember] = {}
        """The order to which each command belongs, by process."""

    def run(self, process: bytes, order: StartMember, command: Command, log: str) -> None:
        """See CommandEffects."""
        word, mean_s, fails = command.argv
        assert word == WORK, command.argv
        self.running[process] = order
        self._promises.started(self._prefix, order)
        seconds = min(self._rng.expovariate(1.0 / float(mean_s)), 8.0 * float(mean_s))
        code = int(self._rng.random() < float(fails))
        forked_s = self._rng.uniform(0.0, _FORK_S)
        seconds = (forked_s + seconds) * self._host.slowness
        self._host.later(seconds, partial(self._ends, process, code))

    def terminate(self, process: bytes) -> None:
        """See CommandEffects. One that hears SIGTERM may take its time for its end."""
        wait_s = self._rng.choice((0.001, 0.2, 3.0))
        self._host.later(wait_s, partial(self._ends, process, _TERMINATED))

    def kill(self, process: bytes) -> None:
        """See CommandEffects."""
        self._host.later(0.001, partial(self._ends, process, KILLED))

    def signal(self, process: bytes, number: int, to: Receivers) -> None:
        """See CommandEffects. Simulated commands go on."""
        order = self.running.get(process)
        if order is not None:
            self._promises.warned(self._prefix, order)

    def _ends(self, process: bytes, code: int) -> None:
        order = self.running.pop(process, None)
        if order is not None:
            self._promises.ended(self._prefix, order, code)
            self._exited(process, code)


class NoJobFiles:
    """See job_members.JobFiles."""

    def make(self, order: StartMember) -> str:
        """See JobFiles."""
        return f"{order.name}.{order.attempt}.log"

    def error(self, order: StartMember, limit: int) -> bytes:
        """See JobFiles."""
        return b""

    def remove(self, job: str) -> None:
        """See JobFiles."""

    def read(self, path: str, offset: int, limit: int) -> tuple[bytes, int, int]:
        """See JobFiles."""
        return b"", -1, 0

    def shorten(self, path: str) -> None:
        """See JobFiles."""

    def is_lost(self, path: str) -> bool:
        """See JobFiles."""
        return False

    def size(self, path: str) -> int:
        """See JobFiles."""
        return 0

    def most_kept(self) -> int:
        """See JobFiles."""
        return 0

    def drop(self, path: str) -> None:
        """See JobFiles."""


class NoMemoryMeter:
    """See job_members.MemoryMeter. Simulated commands use no memory."""

    def above(self, limits: Mapping[int, int]) -> dict[int, int]:
        """See MemoryMeter."""
        return {}
