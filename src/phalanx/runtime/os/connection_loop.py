"""The event loop of a process that other processes connect to through a Unix socket. It accepts
connections of this user's processes, and passes their messages to a handler.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from phalanx.errors import AuthenticationError, ProtocolError
from phalanx.objects.oversize_errors import stand_in
from phalanx.protocol.frames import Unsendable, decode_asks
from phalanx.protocol.framing import STRANGERS_FRAME_BYTES
from phalanx.runtime.os.connection import Connection, listen_again
from phalanx.runtime.os.loop import Loop
from phalanx.runtime.os.peer_user import peer_of, same_user
from phalanx.runtime.os.system import log_defect, say

LISTEN_EVERY_S = 1.0
MOST_OF_A_USER = 64
"""The largest number of connections of another user at the same time. Further ones are closed."""


class Handler(Protocol):
    """Handles the events of a loop's connections."""

    def on_message(self, connection: Connection, message: Any) -> None:
        """Handle a message. An exception that this raises ends the connection."""
        ...

    def on_lost(self, connection: Connection) -> None:
        """Handle the end of a connection."""
        ...

    def on_tick(self, now: float) -> None:
        """Do the work that is due."""
        ...

    def on_round(self) -> None:
        """Finish a round: all messages that had arrived are handled, and the answers are sent
        next.
        """
        ...


class ConnectionLoop:
    """A loop that owns connections, by descriptor."""

    def __init__(
        self,
        handler: Handler,
        listener: socket.socket,
        own: Connection | None = None,
        report_defect: Callable[[Exception], None] = log_defect,
    ) -> None:
        """Build the loop.

        `own`: a connection to a helper of this process, which is kept whatever it sends.
        `report_defect` is called with errors that occur when messages are handled.
        """
        self._report_defect = report_defect
        self._handler = handler
        self._loop = Loop(self._tick, self._round)
        self._connections: dict[int, Connection] = {}
        self._listener = listener
        self._loop.read_from(listener.fileno(), self._accept)
        self._is_accepting = True
        self._listens_at = 0.0
        """The time when to check next that the listener's file exists."""
        self.failed_accepts = 0
        """How often a peer could not be accepted. The usual cause is that no descriptor was
        free.
        """
        self.rejected = 0
        """How often a peer lost its connection because it sent bytes that are no frame."""
        self._own = own
        if own is not None:
            self.watch(own)

    def serve(self) -> None:
        """Run until `stop` is called."""
        self._loop.serve()

    def stop(self) -> None:
        """End the loop after this round."""
        self._loop.is_stopping = True

    def wake_at(self, when: float) -> None:
        """Make sure that a round begins by this time, which is in the process's own time."""
        self._loop.wake_at = when

    @property
    def connection_count(self) -> int:
        """The number of connections."""
        return len(self._connections)

    def take_lag(self) -> float:
        """Return the longest delay of a tick since the last call, in seconds."""
        return self._loop.take_lag()

    def call(self, action: Callable[[], None]) -> None:
        """Run a function in the loop's thread. Any thread may call this."""
        self._loop.call(action)

    def read_from(self, fd: int, reader: Callable[[], None]) -> None:
        """Call `reader` whenever this descriptor can be read. It must not be a connection of the
        loop.
        """
        self._loop.read_from(fd, reader)

    def unregister(self, fd: int) -> bool:
        """Stop reading from a descriptor that `read_from` has added. Returns False if the loop was
        not reading from it.
        """
        return self._loop.unregister(fd)

    def _round(self) -> None:
        try:
            self._handler.on_round()
        finally:
            for connection in self._connections.values():
                connection.flush()

    def _tick(self, now: float) -> None:
        if not self._is_accepting:
            self._is_accepting = True
            self._loop.read_from(self._listener.fileno(), self._accept)
        if now >= self._listens_at:
            self._listens_at = now + LISTEN_EVERY_S
            self._listen_again()
        self._handler.on_tick(now)

    def _listen_again(self) -> None:
        again = listen_again(self._listener)
        if again is None:
            return
        self._loop.unregister(self._listener.fileno())
        self._listener.close()
        self._listener = again
        self._loop.read_from(again.fileno(), self._accept)

    # ---- connections -------------------------------------------------------------------------

    def watch(self, connection: Connection) -> None:
        """Read from this connection from now on."""
        connection.on_writable = self._want_writable
        connection.on_unsendable = self._note_unsendable
        self._connections[connection.fileno] = connection
        self._loop.register(connection.fileno, partial(self._ready, connection))

    def _want_writable(self, connection: Connection, wanted: bool) -> None:
        self._loop.want_writable(connection.fileno, wanted)

    def _note_unsendable(self, connection: Connection, message: Unsendable) -> None:
        self._loop.call(partial(self._answer_for, connection, message))

    def _answer_for(self, connection: Connection, message: Unsendable) -> None:
        """Send an error in place of a message that was too large, so that the other end does not
        wait for ever. If no error can stand for the message, end the connection.
        """
        standing_in = stand_in(message)
        if standing_in is not None and not standing_in.is_for_sender:
            connection.send(standing_in.message)
        else:
            say(f"a message was not sent: {message.reason}")
            self.lose(connection)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                self._accept_later(error)
                return
            try:
                same_user(sock)
            except AuthenticationError:
                sock.close()
                continue
            connection = Connection(sock, is_stranger=True)
            connection.is_of_daemon = True
            self.watch(connection)

    def serve_others(self, listener: socket.socket) -> None:
        """Accept requests of other users, too, on this socket."""
        self._loop.read_from(listener.fileno(), partial(self._accept_others, listener))

    def _accept_others(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                # there is no peer or no descriptor any more; the next tick is early enough
                return
            uid = peer_of(sock).uid
            theirs = sum(one.uid == uid for one in self._connections.values())
            if theirs >= MOST_OF_A_USER:
                sock.close()
                continue
            connection = Connection(sock, decode=decode_asks, limit=STRANGERS_FRAME_BYTES)
            connection.uid = uid
            self.watch(connection)

    def _accept_later(self, error: OSError) -> None:
        """Leave dialling peers in the kernel's queue until the next tick.

        Otherwise the loop would try again and again while no descriptor is free for them.
        """
        self.failed_accepts += 1
        # Logged after 1, 2, 4, 8 and so on failures.
        if self.failed_accepts & (self.failed_accepts - 1) == 0:
            say(f"no connection could be accepted ({self.failed_accepts} times): {error}")
        self._loop.unregister(self._listener.fileno())
        self._is_accepting = False

    def _ready(self, connection: Connection, mask: int) -> None:
        if mask & select.EPOLLOUT:
            connection.drain()
        if mask & ~select.EPOLLOUT:
            self._receive(connection)

    def _receive(self, connection: Connection) -> None:
        try:
            messages = connection.receive()
        except ProtocolError:
            self.rejected += 1
            messages = None
        if connection.is_switched:
            connection.is_switched = False
            self._loop.renew(connection.fileno)
            # This entry was made by a flush before the connection was watched again.
            if connection.has_backlog:
                self._want_writable(connection, True)
        if messages is None:
            self.lose(connection)
            return
        for message in messages:
            try:
                self._handler.on_message(connection, message)
            except Exception as error:
                # A fault in Phalanx, or a peer that sends false messages, must not end the process.
                self._report_defect(error)
                if connection is not self._own:
                    self.lose(connection)
                    return

    def lose(self, connection: Connection) -> None:
        """Drop a connection. Its loss is handled like any other loss."""
        if self.forget(connection):
            self._handler.on_lost(connection)

    def forget(self, connection: Connection) -> bool:
        """Drop a connection. Its loss is not reported. Returns False if it was dropped before."""
        if self._connections.pop(connection.fileno, None) is None:
            return False
        self._loop.unregister(connection.fileno)
        connection.close()
        return True
