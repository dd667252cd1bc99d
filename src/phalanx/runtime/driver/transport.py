"""A process's sockets to other processes and to its node, as its owner sees them."""

from __future__ import annotations

from phalanx.model.ids import PREFIX_BYTES
from phalanx.owner import transport
from phalanx.protocol.messages import Message
from phalanx.runtime.driver.reactor import Reactor
from phalanx.runtime.os.connection import Connection, connect
from phalanx.runtime.os.session import Session


class SocketTransport:
    """Makes connections, and sends what was posted to them."""

    def __init__(self, session: Session, me: bytes, reactor: Reactor) -> None:
        self._session = session
        self._prefix = me[:PREFIX_BYTES]
        self._reactor = reactor
        self._dirty: set[transport.Connection] = set()

    # ---- Transport ---------------------------------------------------------------------------

    def dial(self, process: bytes) -> Connection | None:
        """A new connection to a process; None when nobody listens there."""
        try:
            if process[:PREFIX_BYTES] == self._prefix:
                return connect(self._session.socket_of(process))
            # Not at the top: most sessions have one node, and need no gateway.
            from phalanx.runtime.gateway.gate import request_dial

            return Connection(request_dial(self._session, process), is_dialling=True)
        except OSError:
            return None

    def watch(self, connection: transport.Connection) -> None:
        """Hand on what comes over a connection from now on."""
        assert isinstance(connection, Connection)
        self._reactor.add(connection)

    def close(self, connection: transport.Connection) -> None:
        """End a connection without an event."""
        assert isinstance(connection, Connection)
        self._reactor.drop(connection)

    # ---- Outbox ------------------------------------------------------------------------------

    def post(self, connection: transport.Connection, message: Message) -> None:
        """Send with the next flush, which comes soon by itself."""
        connection.post(message)
        self._dirty.add(connection)
        self._reactor.kick()

    def flush_later(self, connection: transport.Connection) -> None:
        """The connection has posted messages: they leave with the next flush."""
        self._dirty.add(connection)
        self._reactor.kick()

    def flush(self) -> None:
        """Send all that was posted."""
        while self._dirty:
            try:
                self._dirty.pop().flush()
            except KeyError:  # another thread has taken the last one
                break


class NodeConnection:
    """The connection to the node that this process belongs to."""

    def __init__(self, connection: Connection, outbox: transport.Outbox) -> None:
        self.connection = connection
        self._outbox = outbox
        self.is_gone = False
        """Whether the node has ended, or this process has left it."""

    def post(self, message: Message) -> None:
        """Send with the next flush, which comes soon by itself."""
        self._outbox.post(self.connection, message)

    def send(self, message: Message) -> None:
        """Send at once."""
        self.connection.send(message)
