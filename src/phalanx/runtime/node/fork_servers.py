"""Starts a node's fork server, and another one if the fork server is killed. Also watches the
processes that outlive a killed fork server.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from phalanx.protocol.fork_messages import (
    EndKept,
    Exited,
    Fork,
    ReadOutput,
    RunCommand,
    SendSignal,
    SignalCommand,
    decode_body,
)
from phalanx.runtime.os.connection import Connection
from phalanx.runtime.os.fork_client import ForkClient
from phalanx.runtime.os.fork_records import Begun, ForkRecords
from phalanx.runtime.os.helpers import Deaths, end_helper, how_ended


class Keeper(Protocol):
    """Watches the processes that have outlived a fork server, and reports their ends as a fork
    server does.
    """

    @property
    def fileno(self) -> int:
        """A descriptor that is readable if `step` has something to do."""
        ...

    def step(self) -> None:
        """Handle the events that have arrived."""
        ...

    def keep(self, begun: Begun) -> bool:
        """Begin to watch a process. Returns False if the process has ended."""
        ...

    def end_what_nobody_knows(self) -> None:
        """End the processes that a fork server had started without reporting them to the node."""
        ...

    def end_everything(self) -> None:
        """End all processes that this keeper watches."""
        ...


class ForkServers(Protocol):
    """Starts fork servers and keepers for one node."""

    def start(self) -> tuple[socket.socket, int]:
        """Start a fork server. Returns the socket to it and its pid. Raises OSError."""
        ...

    def keeper(self, sock: socket.socket, helpers: Callable[[], set[int]]) -> Keeper:
        """Start a keeper that talks over this socket. `helpers` returns the pids of the node's own
        helpers.
        """
        ...


class Adopted(Protocol):
    """The commands that an earlier process of the node has started."""

    def __contains__(self, process: bytes) -> bool:
        """Whether a process is the process of an adopted command."""
        ...

    def order(self, order: SendSignal | SignalCommand) -> None:
        """Send a signal to an adopted command."""
        ...

    def end_everything(self) -> None:
        """End all adopted commands."""
        ...


class NothingAdopted:
    """The adopted commands of a node that has none."""

    def __contains__(self, process: bytes) -> bool:
        """Return False: there are no adopted commands."""
        return False

    def order(self, order: SendSignal | SignalCommand) -> None:
        """Do nothing."""

    def end_everything(self) -> None:
        """Do nothing."""


class _Drain:
    """A caller's wish to know when all output printed so far was passed on. `left`: the number of
    processes that have not yet answered that they have read their output.
    """

    def __init__(self, drained: Callable[[], None]) -> None:
        self.drained = drained
        self.left = 0


class NodeForks(ForkClient):
    """Sends each order to the process that is the parent of the worker or command in question."""

    def __init__(
        self,
        sock: socket.socket,
        pid: int,
        servers: ForkServers,
        socket_of: Callable[[bytes], str],
        clock: Callable[[], float],
    ) -> None:
        super().__init__(sock, pid)
        self.keeper: Keeper | None = None
        self.kept: Connection | None = None
        """The connection to the keeper of the processes that have outlived a fork server."""
        self.how_lost = ""
        """A clause that says how the last fork server that was replaced has ended."""
        self.adopted: Adopted = NothingAdopted()
        self._servers = servers
        self._records = ForkRecords(socket_of)
        self._deaths = Deaths(clock)
        self._is_kept: set[bytes] = set()
        self._waiting: dict[Connection, deque[_Drain]] = {}

    @property
    def pid(self) -> int:
        """The pid of the fork server."""
        return self._pid

    def post(self, order: Fork | RunCommand | SendSignal | SignalCommand) -> None:
        """Post an order to the process that must carry it out."""
        if isinstance(order, SendSignal | SignalCommand) and order.process in self.adopted:
            self.adopted.order(order)
            return
        if not isinstance(order, Fork) and order.process in self._is_kept:
            assert self.kept is not None
            self.kept.post(order)
            return
        self._records.ordered(order)
        super().post(order)

    def end_kept(self) -> None:
        """End the kept commands (commands that could go on after the node's process), because they
        must not outlive the node this time.
        """
        for connection in filter(None, (self.connection, self.kept)):
            connection.post(EndKept())
            connection.flush()
        self.adopted.end_everything()

    def heard(self, message: Any) -> None:
        """Handle a message of the fork server or the keeper."""
        self._records.heard(message)
        if isinstance(message, Exited):
            self._is_kept.discard(message.process)

    def drain_output(self, drained: Callable[[], None]) -> None:
        """Call `drained` once everything that workers have printed so far was passed on."""
        drain = _Drain(drained)
        for connection in filter(None, (self.connection, self.kept)):
            drain.left += 1
            self._waiting.setdefault(connection, deque()).append(drain)
            connection.post(ReadOutput())

    def output_read(self, connection: Connection) -> None:
        """Handle the answer of a fork server or keeper that it has read all output. The answer
        belongs to the oldest request that was sent over this connection.
        """
        drain = self._waiting[connection].popleft()
        drain.left -= 1
        if not drain.left:
            drain.drained()

    # ---- a fork server that was killed -----------------------------------------------------------

    def start_again(self, helpers: Callable[[], set[int]]) -> Sequence[Exited] | None:
        """Start another fork server in place of the killed one. A keeper watches the processes that
        have outlived the killed one.

        Returns the ends of the processes that cannot be watched, or that the killed fork server had
        not begun. Returns None if no fork server can be started, or if too many fork servers were
        killed.
        """
        self._deaths.add()
        self.how_lost = how_ended(self._pid)
        if self._deaths.are_too_many():
            return None
        end_helper(self._pid)
        lost = self.connection
        try:
            sock, self._pid = self._servers.start()
        except OSError:
            return None
        self.connection = Connection(sock, decode=decode_body)
        if self.keeper is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            self.keeper = self._servers.keeper(theirs, helpers)
            self.kept = Connection(ours, decode=decode_body)
        ended = [
            Exited(one.process, one.pid, -9, "")
            for one in self._records.begun()
            if one.process not in self._is_kept and not self._keep(one)
        ]
        ended += [
            Exited(_process_of(order), 0, 1, f"its fork server {self.how_lost}", is_shortage=True)
            for order in self._records.take_unbegun()
        ]
        self.keeper.end_what_nobody_knows()
        for _ in range(len(self._waiting.get(lost, ()))):
            self.output_read(lost)
        self._waiting.pop(lost, None)
        return ended

    @property
    def kept_text(self) -> str:
        """A text with the numbers of workers and commands that have outlived a fork server."""
        commands = sum(
            one.is_command for one in self._records.begun() if one.process in self._is_kept
        )
        return f"{len(self._is_kept) - commands} workers and {commands} commands"

    def _keep(self, begun: Begun) -> bool:
        assert self.keeper is not None
        if not self.keeper.keep(begun):
            return False
        self._is_kept.add(begun.process)
        return True


def _process_of(order: Fork | RunCommand) -> bytes:
    return order.worker if isinstance(order, Fork) else order.process
