"""Sends messages of the head to nodes and processes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from phalanx.head.state_store import StateStore
from phalanx.model.ids import PREFIX_BYTES
from phalanx.protocol.cluster_messages import ForwardedReply, Via
from phalanx.protocol.frames import encode_body

Send = Callable[[bytes, Any], None]
"""Sends a message to the node whose processes' ids have this prefix."""


class Outbox:
    """Sends messages to connected nodes. A message for a node that is not connected is dropped;
    when the node joins again, it gets the same information.
    """

    def __init__(self, send: Send, state_store: StateStore) -> None:
        self._send = send
        self._state_store = state_store
        self._connected: dict[bytes, str] = {}
        """The id of each connected node, by the prefix of its processes' ids."""
        self._prefixes: dict[str, bytes] = {}

    # ---- connected nodes --------------------------------------------------------------------

    def connect(self, node_id: str, prefix: bytes) -> None:
        """Note that a node is connected."""
        self._connected[prefix] = node_id
        self._prefixes[node_id] = prefix

    def disconnect(self, prefix: bytes) -> None:
        """Note that a node is no longer connected. The node may come back."""
        node_id = self._connected.pop(prefix, None)
        if node_id is not None:
            del self._prefixes[node_id]

    def is_connected(self, prefix: bytes) -> bool:
        """Whether the node with this prefix is connected now."""
        return prefix in self._connected

    @property
    def connected(self) -> Collection[bytes]:
        """The prefixes of the connected nodes."""
        return self._connected.keys()

    # ---- sending -----------------------------------------------------------------------------

    def send(self, prefix: bytes, message: Any) -> None:
        if prefix in self._connected:
            self._send(prefix, message)

    def send_to_stranger(self, prefix: bytes, message: Any) -> None:
        """Send a message to a node that has not joined, or that may not join."""
        self._send(prefix, message)

    def send_node(self, node_id: str, message: Any) -> None:
        """Send a message to the node with this id."""
        prefix = self._prefixes.get(node_id)
        if prefix is not None:
            self._send(prefix, message)

    def order(self, node_id: str, message: Any) -> None:
        """Send an order to a node once all changes so far are written. So the next head knows which
        work nodes were ordered to start or end.
        """
        self._state_store.when_written(lambda: self.send_node(node_id, message))

    def post(self, process: bytes, message: Any) -> None:
        """Send a message to a process, through its node."""
        self.send(process[:PREFIX_BYTES], Via(process, encode_body([message])))

    def reply(self, prefix: bytes, reply: ForwardedReply) -> None:
        """Send a reply to the node that asked."""
        self.send(prefix, reply)

    def broadcast(self, message: Any, but: bytes = b"") -> None:
        """Send a message to every node except this one."""
        for prefix in list(self._connected):
            if prefix != but:
                self._send(prefix, message)
