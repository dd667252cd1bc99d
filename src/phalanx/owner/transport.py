"""What an owner asks of the process that it lives in: connections to others, and to its node."""

from __future__ import annotations

from typing import Protocol

from phalanx.protocol.messages import Message


class Connection(Protocol):
    """A connection to another process, which delivers messages in order."""

    peer: bytes
    """The other process's id, once it is known."""
    is_dialling: bool
    """Whether it is still being made; what is posted waits."""
    refusal: str
    """Why it could not be made."""
    refusal_status: int
    """The kind of that reason, a `protocol.handshake.Status`."""

    @property
    def closed(self) -> bool:
        """Whether it has ended."""
        ...

    def post(self, message: Message) -> None:
        """Add a message to those that leave with the next flush."""
        ...

    def send(self, message: Message) -> None:
        """Send a message, and all that were posted before it, at once."""
        ...

    def flush(self) -> None:
        """Send all that was posted."""
        ...

    def unsent(self) -> list[Message]:
        """What was posted and not flushed."""
        ...

    @property
    def waiting(self) -> int:
        """How many messages were posted and not flushed."""
        ...


class Transport(Protocol):
    """Makes connections and ends them."""

    def dial(self, process: bytes) -> Connection | None:
        """A new connection to a process; None when nobody listens there."""
        ...

    def watch(self, connection: Connection) -> None:
        """Hand on what comes over a dialled connection from now on."""
        ...

    def close(self, connection: Connection) -> None:
        """End a connection without an event."""
        ...


class Outbox(Protocol):
    """Sends messages, many at once where that is possible."""

    def post(self, connection: Connection, message: Message) -> None:
        """Send with the next flush, which comes soon by itself."""
        ...

    def flush_later(self, connection: Connection) -> None:
        """The connection has posted messages: they leave with the next flush."""
        ...


class NodeLink(Protocol):
    """The way to the node that this process belongs to."""

    def post(self, message: Message) -> None:
        """Send with the next flush, which comes soon by itself."""
        ...

    def send(self, message: Message) -> None:
        """Send at once."""
        ...
