"""Connections between nodes: one to each node that this node asks, and one from each node that asks
this node.
"""

from __future__ import annotations

from typing import Any, Protocol

from phalanx.model.ids import PREFIX_BYTES, node_process_id
from phalanx.model.principals import NOBODY
from phalanx.node.peers import NODE, REMOTE, Peer
from phalanx.protocol.cluster_messages import Via
from phalanx.protocol.frames import encode_body
from phalanx.protocol.messages import PROTOCOL_VERSION, Hello


class Connections(Protocol):
    """Makes connections to other nodes, and drops them."""

    def dial(self, process: bytes) -> Peer:
        """Return a new connection to a process of another node.

        Messages that are posted on it wait until it is connected. If the connection cannot be made,
        its loss is reported like any other loss.
        """
        ...

    def forget(self, peer: Peer) -> None:
        """Drop a connection. Its loss is not reported."""
        ...

    def lose(self, peer: Peer) -> None:
        """Drop a connection. Its loss is reported like any other loss."""
        ...


class RemotePeer:
    """A peer that represents a process of another node."""

    tag: Any = REMOTE
    principal = NOBODY  # the process's own node asks the head about this

    def __init__(self, links: NodeLinks, process: bytes) -> None:
        self._links = links
        self.peer = process

    def post(self, message: Any) -> None:
        """Send a message to the process. The process's node passes it on."""
        self._links.send_to(self.peer, self.peer, message)

    send = post


class NodeLinks:
    """The connections to and from other nodes. If one of the two connections with a node ends, both
    are ended.
    """

    def __init__(self, prefix: bytes, connections: Connections) -> None:
        self.prefix = prefix
        self._connections = connections
        self._to: dict[bytes, Peer] = {}
        self._from: dict[bytes, Peer] = {}
        self._dead: dict[bytes, None] = {}
        self._ids: dict[bytes, str] = {}

    # ---- known nodes -----------------------------------------------------------------------------

    def node_known(self, prefix: bytes, node_id: str) -> None:
        """Note a node that the head has named."""
        self._ids[prefix] = node_id

    def node_id(self, prefix: bytes) -> str:
        """Return the id of the node with this prefix; "" if the node is not known."""
        return self._ids.get(prefix, "")

    def known(self) -> list[bytes]:
        """Return the prefixes of all nodes that the head has named."""
        return list(self._ids)

    def forget(self, prefix: bytes) -> None:
        """Forget a node that the head no longer knows."""
        del self._ids[prefix]

    def is_dead(self, prefix: bytes) -> bool:
        """Whether the head has declared a node dead."""
        return prefix in self._dead

    def given_up(self) -> list[bytes]:
        """Return the prefixes of the nodes that a head has declared dead."""
        return list(self._dead)

    # ---- connections -------------------------------------------------------------------------

    def is_asked(self, prefix: bytes) -> bool:
        """Whether this node has a connection over which it asks another node."""
        return prefix in self._to

    def asked(self) -> list[bytes]:
        """Return the prefixes of the nodes to which this node has a connection for its own
        questions.
        """
        return list(self._to)

    def is_elsewhere(self, process: bytes) -> bool:
        """Whether a process belongs to another node."""
        return process[:PREFIX_BYTES] != self.prefix

    def peer(self, process: bytes) -> RemotePeer:
        """Return the peer that represents a process of another node."""
        return RemotePeer(self, process)

    def send(self, prefix: bytes, message: Any) -> None:
        """Send a message to another node. If the connection is lost, the message is lost, too."""
        if prefix in self._dead:
            return
        connection = self._to.get(prefix)
        if connection is None:
            connection = self._to[prefix] = self._connections.dial(node_process_id(prefix))
            connection.peer, connection.tag = node_process_id(prefix), NODE
            me = node_process_id(self.prefix)
            connection.post(Hello(PROTOCOL_VERSION, me, "node", 0))
        connection.post(message)

    def send_to(self, where: bytes, process: bytes, message: Any) -> None:
        """Send to a node a message that comes from, or is meant for, the process `process`. `where`
        begins with the prefix of the node.
        """
        self.send(where[:PREFIX_BYTES], Via(process, encode_body([message])))

    def introduced(self, connection: Peer, process: bytes) -> None:
        """Use a connection over which another node will ask this node."""
        connection.peer, connection.tag = process, NODE
        prefix = process[:PREFIX_BYTES]
        if prefix in self._dead:
            self._connections.lose(connection)
            return
        before = self._from.get(prefix)
        self._from[prefix] = connection
        if before is not None:
            self._connections.forget(before)

    def is_current(self, connection: Peer) -> bool:
        """Whether the connection is the one that its node uses now."""
        prefix = connection.peer[:PREFIX_BYTES]
        return connection in (self._to.get(prefix), self._from.get(prefix))

    def lose(self, connection: Peer) -> None:
        """Drop the connection of a node that breaks the protocol."""
        self._connections.lose(connection)

    def cut(self, prefix: bytes) -> None:
        """Drop both connections to a node."""
        for ends in (self._to, self._from):
            connection = ends.pop(prefix, None)
            if connection is not None:
                self._connections.forget(connection)

    def node_died(self, prefix: bytes) -> None:
        """Send no more messages to a node that the head has declared dead."""
        self._dead[prefix] = None
        self.cut(prefix)
