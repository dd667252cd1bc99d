"""A node's side of its fork server: has workers and commands started and ended."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable
from typing import Any

from phalanx.engines.processes.commands import exit_of
from phalanx.engines.processes.connection import Connection
from phalanx.engines.processes.job_files import JobDirectories
from phalanx.protocol.cluster_messages import Command, StartMember
from phalanx.protocol.node_messages import Request


class ForkClient:
    """See worker_processes.ForkEffects."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._drains: deque[Callable[[], None]] = deque()

    def fork(self, worker: bytes, environment: dict[str, str]) -> None:
        """See ForkEffects."""
        self.request("fork", worker=worker, environment=environment)

    def kill(self, process: bytes) -> None:
        """See ForkEffects."""
        self.request("kill", worker=process, signal=int(signal.SIGKILL))

    def terminate(self, process: bytes) -> None:
        """See ForkEffects."""
        self.request("kill", worker=process, signal=int(signal.SIGTERM))

    def drain_output(self, drained: Callable[[], None]) -> None:
        """Call back once everything that workers have printed so far has been passed on."""
        self._drains.append(drained)
        self.request("drain")

    def drained(self) -> None:
        """The fork server has answered the oldest of these requests."""
        self._drains.popleft()()

    def request(self, method: str, **args: Any) -> None:
        """Have the fork server do something."""
        self.connection.post(Request(0, method, args))


class CommandClient:
    """See job_members.CommandEffects."""

    def __init__(self, server: ForkClient, directories: JobDirectories) -> None:
        self._server = server
        self._directories = directories
        self.kill = server.kill
        self.terminate = server.terminate

    def run(self, process: bytes, order: StartMember, command: Command, log: str) -> None:
        """See CommandEffects."""
        place = self._directories.place(order, command)
        self._server.request(
            "run",
            worker=process,
            argv=place.argv,
            env=place.variables,
            cwd=place.directory,
            log=log,
            is_watched=command.memory_limit > 0,
        )


def how_it_ended(args: dict[str, Any]) -> tuple[int, str]:
    """(exit code, why where the code alone does not say it) of a command that has ended."""
    code, reason = exit_of(args["code"])
    return code, args.get("reason", "") or reason
