"""Tables of message handlers: which part of a node handles a message of each type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from phalanx.node.peers import Peer

M = TypeVar("M")


class MessageTable:
    """Handlers that do not need the sender of a message, for example handlers of the head's
    messages.
    """

    def __init__(self) -> None:
        self._handlers: dict[type, Callable[[Any], None]] = {}

    def on(self, kind: type[M], handler: Callable[[M], None]) -> None:
        """Register the handler for messages of this type."""
        assert kind not in self._handlers, f"{kind.__name__} has a handler already"
        self._handlers[kind] = handler

    def handle(self, message: Any) -> bool:
        """Pass a message to its handler. Returns False if its type has no handler."""
        handler = self._handlers.get(type(message))
        if handler is None:
            return False
        handler(message)
        return True


class PeerMessageTable:
    """Handlers that need the connection over which a message came."""

    def __init__(self) -> None:
        self._handlers: dict[type, Callable[[Peer, Any], None]] = {}

    def on(self, kind: type[M], handler: Callable[[Peer, M], None]) -> None:
        """Register the handler for messages of this type."""
        assert kind not in self._handlers, f"{kind.__name__} has a handler already"
        self._handlers[kind] = handler

    def handle(self, peer: Peer, message: Any) -> bool:
        """Pass a message to its handler. Returns False if its type has no handler."""
        handler = self._handlers.get(type(message))
        if handler is None:
            return False
        handler(peer, message)
        return True
