"""The connections of a node: to its own processes, to other nodes, and to the head."""

from __future__ import annotations

from typing import Any, Protocol

from phalanx.model.ids import PREFIX_BYTES
from phalanx.model.principals import Principal

DRIVER, WORKER, NODE, HEAD, REMOTE = "driver", "worker", "node", "head", "remote"
"""The kinds of processes at the other end of a connection.

REMOTE: a process of another node; that node passes messages on.
"""
ACCOUNT = "account"
"""The tag of a connection to the fork server of an account. The connection keeps the tag after its
end, because messages that arrived before the end may still be unread.
"""


class Peer(Protocol):
    """This node's end of a connection."""

    peer: bytes
    """The id of the process at the other end; b"" until the process has introduced itself."""
    tag: Any
    """The kind of process at the other end, such as WORKER. Until the kind is known, it has another
    value.
    """

    @property
    def principal(self) -> Principal:
        """The account, or the job, of the process at the other end."""
        ...

    def post(self, message: Any) -> None:
        """Queue a message. The message is sent at the end of this round, together with all other
        messages.
        """
        ...

    def send(self, message: Any) -> None:
        """Send a message immediately, without waiting for the end of the round."""
        ...


class Peers:
    """The processes to which this node may send messages, in the order in which they came."""

    def __init__(self) -> None:
        self._peers: dict[bytes, Peer] = {}

    def __contains__(self, process: bytes) -> bool:
        return process in self._peers

    def get(self, process: bytes) -> Peer | None:
        """Return the connection to a process; None if the process has none."""
        return self._peers.get(process)

    def add(self, peer: Peer) -> None:
        """Add the connection of a process that has introduced itself."""
        self._peers[peer.peer] = peer

    def remove(self, process: bytes) -> Peer | None:
        """Remove and return the connection of a process that has ended, or that has lost its
        connection.
        """
        return self._peers.pop(process, None)

    def post(self, process: bytes, message: Any) -> None:
        """Send a message to a process if the process is connected; otherwise drop the message."""
        peer = self._peers.get(process)
        if peer is not None:
            peer.post(message)

    def processes(self) -> list[bytes]:
        """Return the ids of all processes, including processes of other nodes."""
        return list(self._peers)

    def of_node(self, prefix: bytes) -> list[bytes]:
        """Return the ids of the processes of the node with this prefix."""
        return [process for process in self._peers if process[:PREFIX_BYTES] == prefix]

    def local(self) -> list[Peer]:
        """Return the connections to this node's own drivers and workers."""
        return [peer for peer in self._peers.values() if peer.tag != REMOTE]
