"""How a node reaches other nodes, and its connections to their processes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from phalanx.node.object_store import Transfers
from phalanx.node.peers import Peer
from phalanx.protocol.cluster_messages import ViewRow
from phalanx.runtime.os.connection import Connection
from phalanx.runtime.os.connection_loop import ConnectionLoop


class Reach(Transfers, Protocol):
    """Reaches other nodes for the node."""

    def dial(self, process: bytes) -> Connection:
        """Begin a connection to a process of another node."""
        ...

    def know_addresses(self, rows: Iterable[ViewRow]) -> None:
        """Use the addresses in these rows to reach other nodes."""
        ...


class NodeConnections:
    """The node's connections to processes of other nodes."""

    def __init__(self, loop: ConnectionLoop, reach: Reach) -> None:
        self._loop = loop
        self._reach = reach

    def dial(self, process: bytes) -> Connection:
        """Begin a connection to a process of another node."""
        return self._reach.dial(process)

    def forget(self, peer: Peer) -> None:
        """Drop a connection. Its loss is not reported."""
        assert isinstance(peer, Connection)
        self._loop.forget(peer)

    def lose(self, peer: Peer) -> None:
        """Drop a connection. Its loss is handled like any other loss."""
        assert isinstance(peer, Connection)
        self._loop.lose(peer)
