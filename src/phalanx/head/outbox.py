"""Sends messages of the head to nodes and processes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from phalanx.head.state_store import StateStore
from phalanx.model.ids import PREFIX_BYTES
from phalanx.protocol.actor_messages import PlaceActor
from phalanx.protocol.bundle_messages import ExtendRun, StartMember, StartStep
from phalanx.protocol.cluster_messages import ForwardedReply, Via
from phalanx.protocol.frames import encode_body
from phalanx.protocol.report_messages import ReportHeard

Send = Callable[[bytes, Any], None]
"""Sends a message to the node whose processes' ids have this prefix."""

BEGINNING = (StartMember, ExtendRun, StartStep, PlaceActor)
"""The orders that begin work. A node carries them out only while it is sure that the head has not
declared it dead.
"""


class Outbox:
    """Sends messages to connected nodes. A message for a node that is not connected is dropped.
    When the node joins again, it gets the information of the dropped messages.
    """

    def __init__(self, send: Send, state_store: StateStore) -> None:
        self._send = send
        self._state_store = state_store
        self._connected: dict[bytes, str] = {}
        """The id of each connected node, by the prefix of its processes' ids."""
        self._prefixes: dict[str, bytes] = {}
        self._heard: dict[bytes, int] = {}
        """The number of the latest report of each connected node."""
        self._told: dict[bytes, int] = {}
        """The number of the report that was last confirmed to each connected node."""

    # ---- connected nodes --------------------------------------------------------------------

    def connect(self, node_id: str, prefix: bytes) -> None:
        """Note that a node is connected."""
        self._connected[prefix] = node_id
        self._prefixes[node_id] = prefix
        self._heard.pop(prefix, None)
        self._told.pop(prefix, None)

    def disconnect(self, prefix: bytes) -> None:
        """Note that a node is no longer connected. The node may come back."""
        self._heard.pop(prefix, None)
        self._told.pop(prefix, None)
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

    def reported(self, prefix: bytes, number: int, is_asking: bool) -> None:
        """Note the number of a node's report, and confirm the number to the node if the report asks
        for that.
        """
        if number and prefix in self._connected:
            self._heard[prefix] = number
            if is_asking:
                self._name_report(prefix)

    def _name_report(self, prefix: bytes) -> None:
        number = self._heard.get(prefix, 0)
        if number:
            self._told[prefix] = number
            self._send(prefix, ReportHeard(number))

    # ---- sending -----------------------------------------------------------------------------

    def send(self, prefix: bytes, message: Any) -> None:
        """Send a message to a node."""
        if prefix not in self._connected:
            return
        if isinstance(message, BEGINNING) and self._heard.get(prefix) != self._told.get(prefix):
            self._name_report(prefix)
        self._send(prefix, message)

    def send_to_stranger(self, prefix: bytes, message: Any) -> None:
        """Send a message to a node that has not joined, or that may not join."""
        self._send(prefix, message)

    def send_node(self, node_id: str, message: Any) -> None:
        """Send a message to the node with this id."""
        prefix = self._prefixes.get(node_id)
        if prefix is not None:
            self.send(prefix, message)

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
        """Send a message to every node except the node `but`."""
        for prefix in list(self._connected):
            if prefix != but:
                self._send(prefix, message)
