"""The interface between an owner and its process: connections to other processes, and to the
node.
"""

from __future__ import annotations

from typing import Protocol

from phalanx.protocol.messages import Message


class Connection(Protocol):
    """A connection to another process. Messages arrive in order."""

    peer: bytes
    """The id of the other process; b"" until it is known."""
    is_dialling: bool
    """Whether the connection is still being made. Messages that are posted until then wait."""
    refusal: str
    """Why the connection could not be made."""
    refusal_status: int
    """The kind of the refusal, a `protocol.handshake.Status`."""

    @property
    def closed(self) -> bool:
        """Whether the connection has ended."""
        ...

    def post(self, message: Message) -> None:
        """Add a message to those that are sent with the next flush."""
        ...

    def send(self, message: Message) -> None:
        """Send a message immediately. Messages that were posted before go first."""
        ...

    def flush(self) -> None:
        """Send all posted messages."""
        ...

    def unsent(self) -> list[Message]:
        """Return the messages that were posted and not flushed."""
        ...

    @property
    def waiting(self) -> int:
        """The number of messages that were posted and not flushed."""
        ...


class Transport(Protocol):
    """Makes connections and ends them."""

    def dial(self, process: bytes) -> Connection | None:
        """Return a new connection to a process; None if nothing listens there."""
        ...

    def watch(self, connection: Connection) -> None:
        """Pass on the messages that arrive over a dialled connection from now on."""
        ...

    def close(self, connection: Connection) -> None:
        """End a connection. Its end is not reported."""
        ...


class Outbox(Protocol):
    """Sends messages, many of them in one step where that is possible."""

    def post(self, connection: Connection, message: Message) -> None:
        """Post a message. It is sent with the next flush, which comes soon without a further
        call.
        """
        ...

    def flush_later(self, connection: Connection) -> None:
        """Flush this connection together with others soon, because messages were posted on it."""
        ...


class NodeLink(Protocol):
    """The link to the node to which this process belongs."""

    def post(self, message: Message) -> None:
        """Post a message. It is sent with the next flush, which comes soon without a further
        call.
        """
        ...

    def send(self, message: Message) -> None:
        """Send a message immediately."""
        ...
