"""Tables that say which part of a node handles a message, by the message's type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from phalanx.node.peers import Peer

M = TypeVar("M")


class MessageTable:
    """For messages of which it does not matter who sent them, as those of the head."""

    def __init__(self) -> None:
        self._handlers: dict[type, Callable[[Any], None]] = {}

    def on(self, kind: type[M], handler: Callable[[M], None]) -> None:
        """Messages of this type go to this handler."""
        assert kind not in self._handlers, f"{kind.__name__} has a handler already"
        self._handlers[kind] = handler

    def handle(self, message: Any) -> bool:
        """Hand a message over. False when nobody handles its type."""
        handler = self._handlers.get(type(message))
        if handler is None:
            return False
        handler(message)
        return True


class PeerMessageTable:
    """For messages whose handlers need the connection that they came over."""

    def __init__(self) -> None:
        self._handlers: dict[type, Callable[[Peer, Any], None]] = {}

    def on(self, kind: type[M], handler: Callable[[Peer, M], None]) -> None:
        """Messages of this type go to this handler."""
        assert kind not in self._handlers, f"{kind.__name__} has a handler already"
        self._handlers[kind] = handler

    def handle(self, peer: Peer, message: Any) -> bool:
        """Hand a message over. False when nobody handles its type."""
        handler = self._handlers.get(type(message))
        if handler is None:
            return False
        handler(peer, message)
        return True
