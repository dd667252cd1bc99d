"""The commands of a simulated node's members. These commands do nothing except take time."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import partial

from phalanx.model.exit_codes import KILLED, SIGNALLED
from phalanx.protocol.bundle_messages import Command, Receivers, StartMember
from phalanx_research.chaos.hosts import Host
from phalanx_research.chaos.job_promises import JobPromises

WORK = "work"
"""The simulated command. `work MEAN_S FAILS` runs for about MEAN_S seconds; a share FAILS of all
runs exits with 1.
"""
_TERMINATED = SIGNALLED + 15
_FORK_S = 0.02


class SimCommands:
    """The commands of one node, which stand for member_effects.CommandEffects."""

    def __init__(
        self,
        host: Host,
        prefix: bytes,
        promises: JobPromises,
        rng: random.Random,
        exited: Callable[[bytes, int], None],
    ) -> None:
        """Start without commands.

        `prefix` is the prefix of the node's process ids. `exited` tells the node a process's exit
        code.
        """
        self._host = host
        self._prefix = prefix
        self._promises = promises
        self._rng = rng
        self._exited = exited
        self.running: dict[bytes, StartMember] = {}
        """The order that started each running command, by process."""
        self._asked: set[bytes] = set()
        """Processes of commands that were asked to end."""

    def run(self, process: bytes, order: StartMember, command: Command, log: str) -> None:
        """Start a command."""
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
        """Send SIGTERM to a command, which may need some time to end."""
        self._asked.add(process)
        wait_s = self._rng.choice((0.001, 0.2, 3.0))
        self._host.later(wait_s, partial(self._ends, process, _TERMINATED))

    def kill(self, process: bytes) -> None:
        """Kill a command."""
        self._asked.add(process)
        self._host.later(0.001, partial(self._ends, process, KILLED))

    def signal(self, process: bytes, number: int, to: Receivers) -> None:
        """Send a signal, which simulated commands ignore."""
        order = self.running.get(process)
        if order is not None:
            self._promises.warned(self._prefix, order)

    def _ends(self, process: bytes, code: int) -> None:
        order = self.running.pop(process, None)
        if order is not None:
            self._promises.ended(self._prefix, order, code, process in self._asked)
            self._exited(process, code)


class NoJobFiles:
    """A replacement for member_effects.JobFiles without files."""

    def make(self, order: StartMember) -> str:
        """Return no path, since no file is made."""
        return f"{order.name}.{order.attempt}.log"

    def error(self, order: StartMember, limit: int) -> bytes:
        """Return no error text."""
        return b""

    def remove(self, job: str) -> None:
        """Do nothing, since there are no files."""

    def read(self, path: str, offset: int, limit: int) -> tuple[bytes, int, int]:
        """Return an empty piece of a log."""
        return b"", -1, 0

    def shorten(self, path: str, before: int | None = None) -> None:
        """Do nothing, since there are no logs."""

    def is_lost(self, path: str) -> bool:
        """Return False: no log is ever lost."""
        return False

    def size(self, path: str) -> int:
        """Return 0 bytes."""
        return 0

    def most_kept(self) -> int:
        """Return 0 bytes."""
        return 0

    def drop(self, path: str) -> None:
        """Do nothing, since there are no logs."""


class NoMemoryMeter:
    """A meter that reports no memory use, since simulated commands use none."""

    def above(self, limits: Mapping[int, int]) -> dict[int, int]:
        """Return no processes, since none uses memory."""
        return {}
