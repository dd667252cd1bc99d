"""A node's side of its fork server: has workers and commands started and ended."""

from __future__ import annotations

import contextlib
import os
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

    def __init__(self, sock: socket.socket, pid: int = 0) -> None:
        """`sock`: to the fork server; `pid`: of its process, 0 where that is in this one."""
        self.connection = Connection(sock, decode=decode_body)
        self.ordered: Callable[[], None] = lambda: None
        """Called for whatever the fork server is to do."""
        self._pid = pid
        self._drains: deque[Callable[[], None]] = deque()

    def post(self, order: Fork | RunCommand | SendSignal | SignalCommand) -> None:
        """Have the fork server do something."""
        self.connection.post(order)
        self.ordered()

    def fork(self, worker: bytes, environment: dict[str, str]) -> None:
        """See ForkEffects."""
        self.post(Fork(worker, environment))

    def kill(self, process: bytes) -> None:
        """See ForkEffects."""
        self.post(SendSignal(process, int(signal.SIGKILL)))

    def terminate(self, process: bytes) -> None:
        """See ForkEffects."""
        self.post(SendSignal(process, int(signal.SIGTERM)))

    def drain_output(self, drained: Callable[[], None]) -> None:
        """Call back once everything that workers have printed so far has been passed on."""
        self._drains.append(drained)
        self.connection.post(ReadOutput())

    def drained(self) -> None:
        """The fork server has answered the oldest of these requests."""
        self._drains.popleft()()

    def ask(self) -> None:
        """See ForkServerEffects."""
        self.drain_output(lambda: None)

    def rouse(self) -> None:
        """See ForkServerEffects."""
        if self._pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGCONT)


class CommandClient:
    """See job_members.CommandEffects."""

    def __init__(self, server: ForkClient, directories: JobDirectories) -> None:
        self._server = server
        self._directories = directories
        self.kill = server.kill
        self.terminate = server.terminate

    def signal(self, process: bytes, number: int, to: Receivers) -> None:
        """See CommandEffects."""
        self._server.post(SignalCommand(process, number, to))

    def run(self, process: bytes, order: StartMember, command: Command, log: str) -> None:
        """See CommandEffects."""
        place = self._directories.place(order, command)
        self._server.post(
            RunCommand(
                process,
                place.argv,
                place.variables,
                place.directory,
                log,
                int(command.memory_limit),
                command.streams,
                command.umask,
                order.grace_s,
            )
        )


def how_it_ended(message: Exited) -> tuple[int, str, float, int, bool, int]:
    """(exit code, why where the code alone does not say it, CPU seconds, bytes of memory, whether
    there was no process for it, the signal or 0) of a command that has ended."""
    code, reason, number = exit_of(message.code)
    is_unstarted = not message.pid
    return code, message.reason or reason, message.cpu_s, message.memory, is_unstarted, number
