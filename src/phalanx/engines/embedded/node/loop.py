"""A node's loop: one epoll over all connections, one thread."""

from __future__ import annotations

import contextlib
import select
import socket
import time
import traceback
from collections.abc import Callable
from typing import Any, Protocol

from phalanx.engines.embedded.connection import Connection, same_user
from phalanx.errors import AuthenticationError, ProtocolError

_TICK_S = 0.05


class Handler(Protocol):
    """What is done with what comes."""

    def on_message(self, connection: Connection, message: Any) -> None:
        """A message came. What this raises ends the connection."""
        ...

    def on_lost(self, connection: Connection) -> None:
        """A connection has ended."""
        ...

    def on_tick(self, now: float) -> None:
        """Time has passed."""
        ...

    def on_round(self) -> None:
        """All messages that had come are handled, and answers are about to leave."""
        ...


class NodeLoop:
    """Connections by descriptor. `own`, to this process's helper, is never dropped for a bad
    message."""

    def __init__(
        self, handler: Handler, listener: socket.socket, own: Connection | None = None
    ) -> None:
        self._handler = handler
        self._epoll = select.epoll()
        self._connections: dict[int, Connection] = {}
        self._listener = listener
        self._epoll.register(listener.fileno(), select.EPOLLIN)
        self._own = own
        self._callbacks: dict[int, Callable[[], None]] = {}
        self.is_stopping = False
        self.wake_at = float("inf")
        """When a round is due at the latest, by the monotonic clock."""
        if own is not None:
            self.watch(own)

    def serve(self) -> None:
        """Until `is_stopping`."""
        last_tick = time.monotonic()
        while not self.is_stopping:
            wait_s = min(_TICK_S, max(self.wake_at - time.monotonic(), 0.0))
            for fd, mask in self._epoll.poll(wait_s):
                connection = self._connections.get(fd)
                if connection is not None:
                    if mask & select.EPOLLOUT:
                        connection.drain()
                    if mask & ~select.EPOLLOUT:
                        self._receive(connection)
                elif fd in self._callbacks:
                    self._callbacks[fd]()
                elif fd == self._listener.fileno():
                    self._accept()
            now = time.monotonic()
            if now - last_tick >= _TICK_S:
                last_tick = now
                self._step(self._handler.on_tick, now)
            self._step(self._handler.on_round)
            for connection in self._connections.values():
                connection.flush()

    def _step(self, step: Callable[..., None], *args: Any) -> None:
        try:
            step(*args)
        except Exception:
            traceback.print_exc()  # a defect of ours: what else this process serves goes on

    def call_when_readable(self, fd: int, callback: Callable[[], None]) -> None:
        """Call back whenever there is something to read from a descriptor of another kind."""
        self._callbacks[fd] = callback
        self._epoll.register(fd, select.EPOLLIN)

    def watch(self, connection: Connection) -> None:
        """Read from this connection from now on."""
        connection.on_writable = self._want_writable
        self._connections[connection.fileno] = connection
        self._epoll.register(connection.fileno, select.EPOLLIN)

    def _want_writable(self, connection: Connection, wanted: bool) -> None:
        mask = select.EPOLLIN | (select.EPOLLOUT if wanted else 0)
        with contextlib.suppress(OSError, ValueError):
            self._epoll.modify(connection.fileno, mask)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except BlockingIOError:
                return
            try:
                same_user(sock)
            except AuthenticationError:
                sock.close()
                continue
            self.watch(Connection(sock, is_stranger=True))

    def _receive(self, connection: Connection) -> None:
        try:
            messages = connection.receive()
        except ProtocolError:
            messages = None
        if connection.is_switched:
            connection.is_switched = False
            with contextlib.suppress(FileExistsError):
                self._epoll.register(connection.fileno, select.EPOLLIN)
            if connection.has_backlog:  # of what was flushed before it was watched again
                self._want_writable(connection, True)
        if messages is None:
            self.lose(connection)
            return
        for message in messages:
            try:
                self._handler.on_message(connection, message)
            except Exception:
                # A defect of ours, or a peer that lies: it must not take the node along.
                traceback.print_exc()
                if connection is not self._own:
                    self.lose(connection)
                    return

    def lose(self, connection: Connection) -> None:
        """Drop a connection and say so."""
        if self.forget(connection):
            self._handler.on_lost(connection)

    def forget(self, connection: Connection) -> bool:
        """Drop a connection silently. False when it was dropped before."""
        if self._connections.pop(connection.fileno, None) is None:
            return False
        with contextlib.suppress(OSError, ValueError):
            self._epoll.unregister(connection.fileno)
        connection.close()
        return True
