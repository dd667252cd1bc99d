"""The process and the account at the other end of a Unix socket."""

from __future__ import annotations

import os
import struct
from _socket import SO_PEERCRED, SOL_SOCKET  # `import socket` is slow
from typing import TYPE_CHECKING, NamedTuple

from phalanx.errors import AuthenticationError

if TYPE_CHECKING:
    from _socket import socket as Socket

_PEERCRED = struct.Struct("3i")


class Peer(NamedTuple):
    """The process that opened the other end of a connection."""

    pid: int
    uid: int
    gid: int


def peer_of(sock: Socket) -> Peer:
    """Return the process that opened the other end of a Unix socket."""
    return Peer(*_PEERCRED.unpack(sock.getsockopt(SOL_SOCKET, SO_PEERCRED, _PEERCRED.size)))


def same_user(sock: Socket) -> None:
    """Raise AuthenticationError unless the peer of a Unix socket runs as this user."""
    uid = peer_of(sock).uid
    if uid != os.getuid():
        raise AuthenticationError(f"a process of user {uid} tried to connect; refused")


def of_account(sock: Socket, uid: int) -> None:
    """Raise AuthenticationError unless this account opened the other end of the socket. -1 stands
    for this process's account.
    """
    found, wanted = peer_of(sock).uid, os.getuid() if uid < 0 else uid
    if found != wanted:
        raise AuthenticationError(f"the socket belongs to user {found}, not to {wanted}; refused")
