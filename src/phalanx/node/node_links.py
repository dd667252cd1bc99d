"""Connections between nodes: one to every node that is asked, one from every node that asks."""

from __future__ import annotations

from typing import Any, Protocol

from phalanx.model.ids import PREFIX_BYTES, node_process_id
from phalanx.node.peers import NODE, REMOTE, Peer
from phalanx.protocol.cluster_messages import Via
from phalanx.protocol.frames import encode_body
from phalanx.protocol.messages import PROTOCOL_VERSION, Hello


class Connections(Protocol):
    """Makes connections and drops them."""

    def dial(self, process: bytes) -> Peer:
        """A connection to a process of another node. What is posted waits until it is there; if it
        cannot be made, it is lost like any other."""
        ...

    def forget(self, peer: Peer) -> None:
        """Drop a connection, and say nothing of it."""
        ...

    def lose(self, peer: Peer) -> None:
        """Drop a connection, and have its loss handled like any other."""
        ...


class RemotePeer:
    """Stands for a process of another node among this node's peers."""

    tag: Any = REMOTE

    def __init__(self, links: NodeLinks, process: bytes) -> None:
        self._links = links
        self.peer = process

    def post(self, message: Any) -> None:
        """Have its node pass this on."""
        self._links.send_to(self.peer, self.peer, message)

    send = post


class NodeLinks:
    """The connections to and from other nodes. When one of a node's two ends, both do."""

    def __init__(self, prefix: bytes, connections: Connections) -> None:
        self._prefix = prefix
        self._connections = connections
        self._to: dict[bytes, Peer] = {}
        self._from: dict[bytes, Peer] = {}
        self._dead: dict[bytes, None] = {}
        self._ids: dict[bytes, str] = {}

    # ---- which nodes there are ---------------------------------------------------------------

    def node_known(self, prefix: bytes, node_id: str) -> None:
        """The head says that there is such a node."""
        self._ids[prefix] = node_id

    def node_id(self, prefix: bytes) -> str:
        """The id of a node; empty when it is not known."""
        return self._ids.get(prefix, "")

    def known(self) -> list[bytes]:
        """The prefixes of all nodes of which the head has spoken."""
        return list(self._ids)

    def forget(self, prefix: bytes) -> None:
        """The head knows nothing of this node any more."""
        del self._ids[prefix]

    def is_dead(self, prefix: bytes) -> bool:
        """Whether the head has given this node up."""
        return prefix in self._dead

    def given_up(self) -> list[bytes]:
        """The nodes that a head has given up."""
        return list(self._dead)

    # ---- connections -------------------------------------------------------------------------

    def is_asked(self, prefix: bytes) -> bool:
        """Whether there is a connection over which this node asks that one."""
        return prefix in self._to

    def asked(self) -> list[bytes]:
        """The nodes that this one asks."""
        return list(self._to)

    def is_elsewhere(self, process: bytes) -> bool:
        """Whether a process is of another node."""
        return process[:PREFIX_BYTES] != self._prefix

    def peer(self, process: bytes) -> RemotePeer:
        """What stands for a process of another node."""
        return RemotePeer(self, process)

    def send(self, prefix: bytes, message: Any) -> None:
        """Send something to another node. It is lost with the connection."""
        if prefix in self._dead:
            return
        connection = self._to.get(prefix)
        if connection is None:
            connection = self._to[prefix] = self._connections.dial(node_process_id(prefix))
            connection.peer, connection.tag = node_process_id(prefix), NODE
            me = node_process_id(self._prefix)
            connection.post(Hello(PROTOCOL_VERSION, me, "node", 0))
        connection.post(message)

    def send_to(self, where: bytes, process: bytes, message: Any) -> None:
        """Send what is from, or for, a process to the node whose prefix `where` begins with."""
        self.send(where[:PREFIX_BYTES], Via(process, encode_body([message])))

    def introduced(self, connection: Peer, process: bytes) -> None:
        """Another node has connected, to ask something of this one."""
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
        """Whether this is one of the connections to its node, and not an earlier one."""
        prefix = connection.peer[:PREFIX_BYTES]
        return connection in (self._to.get(prefix), self._from.get(prefix))

    def lose(self, connection: Peer) -> None:
        """The other node breaks the rules."""
        self._connections.lose(connection)

    def cut(self, prefix: bytes) -> None:
        """Drop both connections to a node."""
        for ends in (self._to, self._from):
            connection = ends.pop(prefix, None)
            if connection is not None:
                self._connections.forget(connection)

    def node_died(self, prefix: bytes) -> None:
        """The head has given this node up: nothing is sent to it any more."""
        self._dead[prefix] = None
        self.cut(prefix)
