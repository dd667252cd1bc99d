"""The user on the other side of a Unix socket."""

from __future__ import annotations

import os
import socket
import struct

from phalanx.errors import AuthenticationError

_PEERCRED = struct.Struct("3i")


def same_user(sock: socket.socket) -> None:
    """Raise AuthenticationError unless the peer of a Unix socket runs as this user."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEERCRED.size)
    _, uid, _ = _PEERCRED.unpack(raw)
    if uid != os.getuid():
        raise AuthenticationError(f"a process of user {uid} tried to connect; refused")
