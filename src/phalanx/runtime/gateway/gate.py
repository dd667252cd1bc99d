"""The gate, where a process asks its node's gateway for a connection to a process of another node.

    sock = request_dial(session, target)     # readable when the answer has come

The answer is one byte, a `Status`, then a reason in UTF-8; with OK comes the socket (SCM_RIGHTS).
"""

from __future__ import annotations

import os
import socket
import struct

from phalanx.protocol.handshake import TARGET_BYTES, Status
from phalanx.runtime.os.session import Session

GATE_VERSION = 1
REQUEST = struct.Struct(f"!H{TARGET_BYTES}s")
ANSWER_BYTES = 1024


class DialError(ConnectionError):
    """Raised if the other process cannot be reached. `status` is the kind of reason."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def gate_of(session: Session) -> str:
    """Return the path of the gate's socket."""
    return os.path.join(session.sockets, "gate")


def request_dial(session: Session, target: bytes) -> socket.socket:
    """Request a connection to the process `target`. Raises OSError if there is no gateway."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.connect(gate_of(session))
        sock.sendall(REQUEST.pack(GATE_VERSION, target))
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock
