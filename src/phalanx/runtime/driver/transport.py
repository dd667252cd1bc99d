"""A process's sockets to other processes and to its node, with the interface that its owner
uses.
"""

from __future__ import annotations

from phalanx.model.ids import PREFIX_BYTES
from phalanx.owner import transport
from phalanx.protocol.messages import Message
from phalanx.runtime.driver.reactor import Reactor
from phalanx.runtime.os.connection import Connection, connect
from phalanx.runtime.os.session import Session


class SocketTransport:
    """Makes connections, and sends the messages posted to them."""

    def __init__(self, session: Session, me: bytes, reactor: Reactor) -> None:
        self._session = session
        self._prefix = me[:PREFIX_BYTES]
        self._reactor = reactor
        self.dirty: set[transport.Connection] = set()
        """The connections with posted messages that the next flush sends."""

    # ---- Transport ---------------------------------------------------------------------------

    def dial(self, process: bytes) -> Connection | None:
        """Open a new connection to a process. Returns None if nobody listens there."""
        try:
            if process[:PREFIX_BYTES] == self._prefix:
                return connect(self._session.socket_of(process))
            # Imported here because most sessions have one node and need no gateway.
            from phalanx.runtime.gateway.gate import request_dial

            return Connection(request_dial(self._session, process), is_dialling=True)
        except OSError:
            return None

    def watch(self, connection: transport.Connection) -> None:
        """Read from a connection from now on, and pass its messages on."""
        assert isinstance(connection, Connection)
        self._reactor.add(connection)

    def close(self, connection: transport.Connection) -> None:
        """Close a connection. Its end is not reported."""
        assert isinstance(connection, Connection)
        self._reactor.drop(connection)

    # ---- Outbox ------------------------------------------------------------------------------

    def post(self, connection: transport.Connection, message: Message) -> None:
        """Send a message with the next flush, which comes soon."""
        connection.post(message)
        self.dirty.add(connection)
        self._reactor.kick()

    def flush_later(self, connection: transport.Connection) -> None:
        """Send a connection's posted messages with the next flush."""
        self.dirty.add(connection)
        self._reactor.kick()

    def flush(self) -> None:
        """Send all posted messages."""
        while self.dirty:
            try:
                self.dirty.pop().flush()
            except KeyError:  # another thread has removed the last one
                break


class NodeConnection:
    """The connection to the node to which this process belongs."""

    def __init__(self, connection: Connection, outbox: transport.Outbox) -> None:
        self.connection = connection
        self._outbox = outbox
        self.is_gone = False
        """Whether the node has ended, or this process has left the node."""

    def post(self, message: Message) -> None:
        """Send a message with the next flush, which comes soon."""
        self._outbox.post(self.connection, message)

    def send(self, message: Message) -> None:
        """Send a message now, and not with the next flush."""
        self.connection.send(message)
