"""The connections of one process to others. Processes that cannot be reached have none."""

from __future__ import annotations

from collections.abc import Callable

from phalanx.model.ids import PREFIX_BYTES
from phalanx.owner.transport import Connection, Transport


class Peers:
    """The connections, by the ids of the processes at their other ends."""

    def __init__(
        self, me: bytes, transport: Transport, on_dialled: Callable[[Connection], None]
    ) -> None:
        """`on_dialled` introduces this process over a connection that this process makes."""
        self._prefix = me[:PREFIX_BYTES]
        self._transport = transport
        self._on_dialled = on_dialled
        self._connections: dict[bytes, Connection] = {}
        self._adopted: set[bytes] = set()
        """Processes that made the connection to this process themselves."""
        self._dead: set[bytes] = set()
        """Processes of this node that have ended."""
        self._dead_nodes: set[bytes] = set()
        self.is_closed = False

    def peer(self, process: bytes) -> Connection | None:
        """Return the connection to a process; if there is none, make one. None if the process has
        ended.
        """
        found = self._connections.get(process)
        if found is not None:
            return found
        if self.is_closed or process in self._dead or self.is_on_dead_node(process):
            return None
        connection = self._transport.dial(process)
        if connection is None:
            return None
        connection.peer = process
        self._connections[process] = connection
        self._on_dialled(connection)
        self._transport.watch(connection)
        return connection

    def known(self, process: bytes) -> Connection | None:
        """Return the connection to a process, if there is one."""
        return self._connections.get(process)

    def all(self) -> list[Connection]:
        """Return every connection to another process."""
        return list(self._connections.values())

    def adopt(self, connection: Connection) -> bool:
        """Use a connection that the other process has made. Returns False if another connection to
        it is in use.
        """
        if self._connections.setdefault(connection.peer, connection) is not connection:
            return False
        self._adopted.add(connection.peer)
        return True

    def was_made_by(self, process: bytes) -> bool:
        """Whether the process itself made the connection that is in use."""
        return process in self._adopted

    def is_here(self, process: bytes) -> bool:
        """Whether a process belongs to this node. If it does and its connection ends, the process
        has ended.
        """
        return process[:PREFIX_BYTES] == self._prefix

    def is_on_dead_node(self, process: bytes) -> bool:
        """Whether the head has declared the node of a process dead."""
        return process[:PREFIX_BYTES] in self._dead_nodes

    # ---- ends --------------------------------------------------------------------------------

    def ended(self, connection: Connection) -> bool:
        """Forget a connection that has ended. Returns False if its process uses another
        connection.
        """
        peer = connection.peer
        if not peer or self._connections.get(peer) is not connection:
            return False
        del self._connections[peer]
        self._adopted.discard(peer)
        if self.is_here(peer):
            self._dead.add(peer)
        return True

    def close(self, connection: Connection) -> None:
        """Close a connection. The caller handles its end."""
        self._transport.close(connection)

    def node_died(self, prefix: bytes) -> list[Connection]:
        """Make no more connections to the processes of a dead node. Returns those that are open."""
        self._dead_nodes.add(prefix)
        return [c for peer, c in self._connections.items() if peer[:PREFIX_BYTES] == prefix]

    def shut_down(self) -> None:
        """Make no more connections."""
        self.is_closed = True
