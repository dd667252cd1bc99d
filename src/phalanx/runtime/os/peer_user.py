"""The process and the account at the other end of a Unix socket."""

from __future__ import annotations

import os
import socket
import struct
from typing import NamedTuple

from phalanx.errors import AuthenticationError

_PEERCRED = struct.Struct("3i")


class Peer(NamedTuple):
    """The process that opened the other end of a connection."""

    pid: int
    uid: int
    gid: int


def peer_of(sock: socket.socket) -> Peer:
    """Return the process that opened the other end of a Unix socket."""
    return Peer(
        *_PEERCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEERCRED.size))
    )


def same_user(sock: socket.socket) -> None:
    """Raise AuthenticationError unless the peer of a Unix socket runs as this user."""
    uid = peer_of(sock).uid
    if uid != os.getuid():
        raise AuthenticationError(f"a process of user {uid} tried to connect; refused")


def of_account(sock: socket.socket, uid: int) -> None:
    """Raise AuthenticationError unless this account opened the other end of the socket. -1 stands
    for this process's account.
    """
    found, wanted = peer_of(sock).uid, os.getuid() if uid < 0 else uid
    if found != wanted:
        raise AuthenticationError(f"the socket belongs to user {found}, not to {wanted}; refused")
