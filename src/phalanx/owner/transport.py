"""The interface of an owner to its process: connections to others, and to its node."""

from __future__ import annotations

from typing import Protocol

from phalanx.protocol.messages import Message


class Connection(Protocol):
    """A connection to another process, which delivers messages in order."""

    peer: bytes
    """The id of the other process; empty until it is known."""
    is_dialling: bool
    """Whether the connection is still being made. Messages posted until then wait."""
    refusal: str
    """Why the connection could not be made."""
    refusal_status: int
    """The kind of the reason in `refusal`, a `protocol.handshake.Status`."""

    @property
    def closed(self) -> bool:
        """Whether the connection has ended."""
        ...

    def post(self, message: Message) -> None:
        """Add a message to those that are sent with the next flush."""
        ...

    def send(self, message: Message) -> None:
        """Send a message at once, after all messages that were posted before."""
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
        """Return a new connection to a process; None if nobody listens there."""
        ...

    def watch(self, connection: Connection) -> None:
        """Pass on the messages of a dialled connection from now on."""
        ...

    def close(self, connection: Connection) -> None:
        """End a connection without raising an event."""
        ...


class Outbox(Protocol):
    """Sends messages, many at once where that is possible."""

    def post(self, connection: Connection, message: Message) -> None:
        """Post a message; the next flush sends it, and comes soon without a further call."""
        ...

    def flush_later(self, connection: Connection) -> None:
        """Flush this connection with the next flush, because messages were posted on it."""
        ...


class NodeLink(Protocol):
    """The link to the node to which this process belongs."""

    def post(self, message: Message) -> None:
        """Post a message; the next flush sends it, and comes soon without a further call."""
        ...

    def send(self, message: Message) -> None:
        """Send a message at once."""
        ...
