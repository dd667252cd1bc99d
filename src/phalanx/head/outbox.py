"""What the control store sends to nodes and processes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from phalanx.head.state_store import StateStore
from phalanx.model.ids import PREFIX_BYTES
from phalanx.protocol.cluster_messages import ForwardedReply, Via
from phalanx.protocol.frames import encode_body

Send = Callable[[bytes, Any], None]
"""Sends a message to the node with this prefix."""


class Outbox:
    """Messages for nodes that are connected. What is meant for others is lost, and said again when
    they join."""

    def __init__(self, send: Send, state_store: StateStore) -> None:
        self._send = send
        self._state_store = state_store
        self._connected: dict[bytes, str] = {}
        """The nodes that are there, by prefix."""
        self._prefixes: dict[str, bytes] = {}

    # ---- who is there ------------------------------------------------------------------------

    def connect(self, node_id: str, prefix: bytes) -> None:
        """A node is there."""
        self._connected[prefix] = node_id
        self._prefixes[node_id] = prefix

    def disconnect(self, prefix: bytes) -> None:
        """A node is not there any more; it may come back."""
        node_id = self._connected.pop(prefix, None)
        if node_id is not None:
            del self._prefixes[node_id]

    def is_connected(self, prefix: bytes) -> bool:
        """Whether a node is there now."""
        return prefix in self._connected

    @property
    def connected(self) -> Collection[bytes]:
        """The prefixes of the nodes that are there now."""
        return self._connected.keys()

    # ---- sending -----------------------------------------------------------------------------

    def send(self, prefix: bytes, message: Any) -> None:
        """To a node."""
        if prefix in self._connected:
            self._send(prefix, message)

    def send_to_stranger(self, prefix: bytes, message: Any) -> None:
        """To a node that has not joined, or may not."""
        self._send(prefix, message)

    def send_node(self, node_id: str, message: Any) -> None:
        """To a node by its id."""
        prefix = self._prefixes.get(node_id)
        if prefix is not None:
            self._send(prefix, message)

    def order(self, node_id: str, message: Any) -> None:
        """To a node by its id, once all that the order rests on is written: what nodes have begun
        or ended, the next head knows."""
        self._state_store.when_written(lambda: self.send_node(node_id, message))

    def post(self, process: bytes, message: Any) -> None:
        """To a process, through its node."""
        self.send(process[:PREFIX_BYTES], Via(process, encode_body([message])))

    def reply(self, prefix: bytes, reply: ForwardedReply) -> None:
        """To a node that asked."""
        self.send(prefix, reply)

    def broadcast(self, message: Any, but: bytes = b"") -> None:
        """To every node but this one."""
        for prefix in list(self._connected):
            if prefix != but:
                self._send(prefix, message)
