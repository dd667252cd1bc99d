"""The commands of a simulated node's members. They do nothing but take time."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from functools import partial

import msgspec

from phalanx.model.exit_codes import KILLED, SIGNALLED
from phalanx.node.kept_members import ENDED, RUNS, UNBEGUN, AttemptOf, KeptMember
from phalanx.node.member_effects import CommandEnd
from phalanx.protocol.bundle_messages import Command, Receivers, StartMember
from phalanx_research.chaos.hosts import Host
from phalanx_research.chaos.job_promises import JobPromises

WORK = "work"
"""The simulated command. `work MEAN_S FAILS` runs for about MEAN_S seconds. A fraction FAILS of all
runs exits with 1.
"""
_TERMINATED = SIGNALLED + 15
_FORK_S = 0.02


class SimCommands:
    """The commands of one node, in place of member_effects.CommandEffects. With `keeps`, the
    commands go on when the node's process ends, and the next process gets this object, with the
    records of members. The object then also takes the place of kept_members.Keeping and
    taking_over.EarlierCommands.
    """

    def __init__(
        self,
        host: Host,
        prefix: bytes,
        promises: JobPromises,
        rng: random.Random,
        keeps: bool,
    ) -> None:
        """`prefix` is the prefix of the node's process ids."""
        self.keeps = keeps
        self.name = host.name
        """The node's name, which all its processes have."""
        self.formers: list[str] = []
        """The ids of the node's earlier processes. The head may know the members under these
        ids.
        """
        self._host = host
        self._prefix = prefix
        self._promises = promises
        self._rng = rng
        self._clock = host.clock
        self._exited: Callable[[bytes, int], None] | None = None
        self._records: dict[AttemptOf, bytes] = {}
        self._codes: dict[bytes, int] = {}
        """The exit codes of kept commands that have ended."""
        self._origins: dict[AttemptOf, bytes] = {}
        """The prefix of the node's process that began each attempt."""
        self.running: dict[bytes, StartMember] = {}
        """The order that started each running command, by process."""
        self._asked: set[bytes] = set()
        """Processes of commands that were asked to end."""

    def serve(
        self, host: Host, prefix: bytes, clock: Callable[[], float], exited: Callable[..., None]
    ) -> None:
        """Serve this process of the node from now on. `exited` reports the exit code of a command's
        process.
        """
        self._host, self._prefix, self._clock, self._exited = host, prefix, clock, exited

    def process_gone(self, node_id: str) -> None:
        """Go on without a process of the node."""
        self._exited = None
        self.formers.append(node_id)

    def machine_gone(self) -> None:
        """End all commands, because their machine has ended."""
        for prefix in sorted({self._prefix, *self._origins.values()}):
            self._promises.node_gone(prefix)
        self._exited = None
        self.running.clear()
        self._records.clear()

    def run(self, process: bytes, order: StartMember, command: Command, log: str) -> None:
        """Start a command."""
        word, mean_s, fails = command.argv
        assert word == WORK, command.argv
        self.running[process] = order
        self._promises.begins(self._prefix, order)
        self._promises.started(self._origin(order), order)
        seconds = min(self._rng.expovariate(1.0 / float(mean_s)), 8.0 * float(mean_s))
        code = int(self._rng.random() < float(fails))
        forked_s = self._rng.uniform(0.0, _FORK_S)
        seconds = (forked_s + seconds) * self._host.slowness
        self._later(seconds, partial(self._ends, process, code))

    def _origin(self, order: StartMember) -> bytes:
        if not self.keeps:
            return self._prefix
        return self._origins.setdefault((order.group, order.index, order.attempt), self._prefix)

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        """Run an action later. If commands are kept, the action also runs while the node has no
        process.
        """
        if self.keeps:
            self._host.kernel.after(seconds, action)
        else:
            self._host.later(seconds, action)

    def terminate(self, process: bytes) -> None:
        """Send SIGTERM to a command, which may need some time to end."""
        self._asked.add(process)
        wait_s = self._rng.choice((0.001, 0.2, 3.0))
        self._later(wait_s, partial(self._ends, process, _TERMINATED))

    def kill(self, process: bytes) -> None:
        self._asked.add(process)
        self._later(0.001, partial(self._ends, process, KILLED))

    def signal(self, process: bytes, number: int, to: Receivers) -> None:
        """Send a signal, which simulated commands ignore."""
        order = self.running.get(process)
        if order is not None:
            self._promises.warned(self._prefix, order)

    def _ends(self, process: bytes, code: int) -> None:
        order = self.running.pop(process, None)
        if order is None:
            return
        self._promises.ended(self._origin(order), order, code, process in self._asked)
        if self.keeps:
            self._codes[process] = code
        if self._exited is not None:
            self._exited(process, code)

    # ---- kept members ------------------------------------------------------------------------

    def runs_on(self, command: Command) -> bool:
        """Return True: no simulated command has streams."""
        return True

    def keep(self, member: KeptMember) -> None:
        began = member.began - self._clock() + self._host.kernel.now
        lasting = msgspec.structs.replace(member, began=began)
        self._records[member.attempt] = msgspec.msgpack.encode(lasting)

    def forget(self, attempts: Collection[AttemptOf]) -> None:
        """Delete the records of these attempts."""
        for attempt in attempts:
            self._records.pop(attempt, None)

    def load(self) -> list[KeptMember]:
        """Return the members for which records exist."""
        found = [msgspec.msgpack.decode(one, type=KeptMember) for one in self._records.values()]
        for member in found:
            member.began += self._clock() - self._host.kernel.now
            self._promises.outlived(member.order.job)
        return found

    def state(self, process: bytes) -> str:
        """Return whether a command runs, has ended or has not begun."""
        if process in self.running:
            return RUNS
        return ENDED if process in self._codes else UNBEGUN

    def pid(self, process: bytes) -> int:
        """Return the number 1, because simulated commands have no pid."""
        return 1

    def how_ended(self, processes: Collection[bytes]) -> CommandEnd:
        """Return how a member with these commands has ended."""
        return CommandEnd(code=next(filter(None, map(self._codes.__getitem__, processes)), 0))

    def adopt(self, process: bytes, command: Command) -> None:
        """Report a command's end to the node's present process, now or later."""
        self._promises.went_on()
        if process in self._codes and self._exited is not None:
            exited = self._exited
            self._host.later(0.001, lambda: exited(process, self._codes[process]))

    def end(self, process: bytes) -> None:
        """End a command that no later process of the node takes over."""
        order = self.running.pop(process, None)
        if order is not None:
            self._promises.ended(self._origin(order), order, KILLED, was_asked=True)


class NoPackages:
    """Takes the place of packages.PackageStore: no job of a simulation has packages."""

    def has(self, sha256: str) -> bool:
        """Return False, since no package is ever here."""
        return False

    def add(self, sha256: str, offset: int, data: bytes, total: int) -> None:
        """Do nothing, since nobody sends parts of packages."""

    def make_room(self, wanted: int, kept: Collection[str]) -> None:
        """Do nothing, since there are no files."""


class NoJobFiles:
    """Takes the place of member_effects.JobFiles, without files."""

    def __init__(self) -> None:
        self.packages = NoPackages()

    def give_packages(self, order: StartMember) -> None:
        """Do nothing, since no member has packages."""

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

    def earlier_logs(self) -> list[tuple[str, float]]:
        """Return no logs, because nothing of an earlier node stays."""
        return []

    def most_kept(self) -> int:
        """Return 0 bytes."""
        return 0

    def drop(self, path: str) -> None:
        """Do nothing, since there are no logs."""


class NoMemoryMeter:
    """A meter of memory use, which simulated commands do not have."""

    def above(self, limits: Mapping[int, int]) -> dict[int, int]:
        """Return no processes: none is above its limit."""
        return {}
