"""A node's side of its fork server: orders the starts and ends of workers and commands."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections import deque
from collections.abc import Callable

from phalanx.model.node_deaths import PARENT_KILLED
from phalanx.node.member_effects import CommandEnd
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
    """Sends a node's orders to its fork server."""

    def __init__(self, sock: socket.socket, pid: int = 0) -> None:
        """`sock`: a socket to the fork server. `pid`: the fork server's process; 0 if it is this
        process.
        """
        self.connection = Connection(sock, decode=decode_body)
        self.ordered: Callable[[], None] = lambda: None
        """A function that is called for each order that is sent to the fork server."""
        self._pid = pid
        self._drains: deque[Callable[[], None]] = deque()

    def post(self, order: Fork | RunCommand | SendSignal | SignalCommand) -> None:
        """Send an order to the fork server."""
        self.connection.post(order)
        self.ordered()

    def fork(self, worker: bytes, environment: dict[str, str]) -> None:
        """Fork a worker with these variables."""
        self.post(Fork(worker, environment))

    def kill(self, process: bytes) -> None:
        """Send SIGKILL to a process."""
        self.post(SendSignal(process, int(signal.SIGKILL)))

    def terminate(self, process: bytes) -> None:
        """Send SIGTERM to a process."""
        self.post(SendSignal(process, int(signal.SIGTERM)))

    def drain_output(self, drained: Callable[[], None]) -> None:
        """Call `drained` once everything that workers have printed so far was passed on."""
        self._drains.append(drained)
        self.connection.post(ReadOutput())

    def drained(self) -> None:
        """Note that the fork server has read all output, as the oldest waiting call of
        `drain_output` asked.
        """
        self._drains.popleft()()

    def ask(self) -> None:
        """Ask the fork server for an answer, which shows that it works."""
        self.drain_output(lambda: None)

    def rouse(self) -> None:
        """Continue the fork server if it is stopped."""
        if self._pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGCONT)


class CommandClient:
    """Starts and signals the commands of jobs' members."""

    def __init__(self, server: ForkClient, directories: JobDirectories) -> None:
        self._server = server
        self._directories = directories
        self.kill = server.kill
        self.terminate = server.terminate

    def signal(self, process: bytes, number: int, to: Receivers) -> None:
        """Send a signal to those processes of a command that `to` chooses."""
        self._server.post(SignalCommand(process, number, to))

    def run(self, process: bytes, order: StartMember, command: Command, log: str) -> None:
        """Start a command of a member, in the member's directory, with its log."""
        self._server.post(run_command(self._directories, process, order, command, log))

    def run_kept(
        self, process: bytes, order: StartMember, command: Command, log: str, exit_file: str
    ) -> None:
        """Start a command that continues when the node's process ends. All else is as in `run`."""
        ordered = run_command(self._directories, process, order, command, log)
        ordered.exit_file = exit_file
        self._server.post(ordered)


def run_command(
    directories: JobDirectories, process: bytes, order: StartMember, command: Command, log: str
) -> RunCommand:
    """Return the order that starts a command of a member, in the member's directory and with its
    log.
    """
    place = directories.place(order, command)
    return RunCommand(
        process,
        place.argv,
        place.variables,
        place.directory,
        log,
        int(command.memory_limit),
        command.streams,
        command.umask,
        order.grace_s,
        cpus=command.cpus,
    )


def how_it_ended(message: Exited) -> CommandEnd:
    """Return how a command ended."""
    code, reason, number = exit_of(message.code)
    return CommandEnd(
        code=code,
        reason=message.reason or (PARENT_KILLED if message.is_parent_killed else reason),
        cpu_s=message.cpu_s,
        memory=message.memory,
        signal=number,
        is_unstarted=not message.pid,
        is_shortage=message.is_shortage,
        is_parent_killed=message.is_parent_killed,
    )
