"""A node's side of its fork server: has workers and commands started and ended."""

from __future__ import annotations

import signal
import socket
from collections import deque
from collections.abc import Callable

from phalanx.protocol.bundle_messages import Command, Receivers, StartMember
from phalanx.protocol.fork_messages import (
    Exited,
    Fork,
    ReadOutput,
    RunCommand,
    SendSignal,
    SignalCommand,
    decode_body,
)
from phalanx.runtime.os.commands import exit_of
from phalanx.runtime.os.connection import Connection
from phalanx.runtime.os.job_files import JobDirectories


class ForkClient:
    """See worker_processes.ForkEffects."""

    def __init__(self, sock: socket.socket) -> None:
        """`sock`: to the fork server."""
        self.connection = Connection(sock, decode=decode_body)
        self._drains: deque[Callable[[], None]] = deque()

    def fork(self, worker: bytes, environment: dict[str, str]) -> None:
        """See ForkEffects."""
        self.connection.post(Fork(worker, environment))

    def kill(self, process: bytes) -> None:
        """See ForkEffects."""
        self.connection.post(SendSignal(process, int(signal.SIGKILL)))

    def terminate(self, process: bytes) -> None:
        """See ForkEffects."""
        self.connection.post(SendSignal(process, int(signal.SIGTERM)))

    def drain_output(self, drained: Callable[[], None]) -> None:
        """Call back once everything that workers have printed so far has been passed on."""
        self._drains.append(drained)
        self.connection.post(ReadOutput())

    def drained(self) -> None:
        """The fork server has answered the oldest of these requests."""
        self._drains.popleft()()


class CommandClient:
    """See job_members.CommandEffects."""

    def __init__(self, server: ForkClient, directories: JobDirectories) -> None:
        self._server = server
        self._directories = directories
        self.kill = server.kill
        self.terminate = server.terminate

    def signal(self, process: bytes, number: int, to: Receivers) -> None:
        """See CommandEffects."""
        self._server.connection.post(SignalCommand(process, number, to))

    def run(self, process: bytes, order: StartMember, command: Command, log: str) -> None:
        """See CommandEffects."""
        place = self._directories.place(order, command)
        self._server.connection.post(
            RunCommand(
                process,
                place.argv,
                place.variables,
                place.directory,
                log,
                int(command.memory_limit),
                command.streams,
            )
        )


def how_it_ended(message: Exited) -> tuple[int, str, float, int]:
    """(exit code, why where the code alone does not say it, CPU seconds, bytes of memory) of a
    command that has ended."""
    code, reason = exit_of(message.code)
    return code, message.reason or reason, message.cpu_s, message.memory
