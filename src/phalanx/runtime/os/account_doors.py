"""The sockets through which a node's next process reaches the work of other accounts.

While an account has work on a node, the directory of the node's records has two sockets of the
account: one of its fork server, and its *door*, which is the socket of the process that
phalanx-launch has started to guard the account's work. Only the node's account can enter this
directory. Any message through the door ends all work of the account.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from collections.abc import Collection

END = b"end"
_FORK, _DOOR = ".fork", ".door"
_PREFIX = "account-"
_ENDED_S = 15.0
"""The longest time, in seconds, for which `end_accounts` waits for the end of all processes."""
_KINDS = {_FORK: socket.SOCK_STREAM, _DOOR: socket.SOCK_SEQPACKET}
_BACKLOG = 8


def listen(kept: str, uid: int) -> tuple[socket.socket, socket.socket]:
    """Make the two sockets of an account: that of its fork server, and its door. Raises OSError."""
    made = []
    for suffix, kind in _KINDS.items():
        path = _path(kept, uid, suffix)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        listener = socket.socket(socket.AF_UNIX, kind)
        listener.bind(path)
        listener.listen(_BACKLOG)
        made.append(listener)
    return made[0], made[1]


def connect_to_server(kept: str, uid: int) -> socket.socket:
    """Return a connection to the fork server of an account. Raises OSError."""
    return _connect(kept, uid, _FORK)


def connect_to_door(kept: str, uid: int) -> socket.socket:
    """Return a connection to the guard of an account's work. Raises OSError."""
    return _connect(kept, uid, _DOOR)


def forget(kept: str, uid: int) -> None:
    """Delete the sockets of an account whose work has ended."""
    for suffix in _KINDS:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_path(kept, uid, suffix))


def accounts_in(kept: str) -> list[int]:
    """Return the accounts that have sockets in a directory of records."""
    names = [name for name in os.listdir(kept) if name.endswith(_DOOR)]
    numbers = [name.removeprefix(_PREFIX).removesuffix(_DOOR) for name in names]
    return sorted(int(one) for one in numbers if one.isdecimal())


def has_account_with_work(kept: str) -> bool:
    """Whether an account has work that continues without its node."""
    for uid in accounts_in(kept):
        with contextlib.suppress(OSError), connect_to_door(kept, uid):
            return True
    return False


def end_accounts(kept: str, among: Collection[int] | None = None) -> None:
    """End all work of the accounts, and delete their sockets. Wait for the end of the processes for
    at most _ENDED_S.

    `among`: the accounts; None for all that have sockets in the directory.
    """
    uids = accounts_in(kept) if among is None else among
    doors = {}
    for uid in uids:
        with contextlib.suppress(OSError):
            door = connect_to_door(kept, uid)
            doors[door.fileno()] = door
            door.send(END)
    until = time.monotonic() + _ENDED_S
    while doors and time.monotonic() < until:
        ready, _, _ = select.select(list(doors), [], [], until - time.monotonic())
        for fd in ready:
            with contextlib.suppress(OSError):
                if doors[fd].recv(16):
                    continue
            doors.pop(fd).close()
    for door in doors.values():
        door.close()
    for uid in uids:
        forget(kept, uid)


def _connect(kept: str, uid: int, suffix: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, _KINDS[suffix])
    connection.setblocking(False)
    try:
        connection.connect(_path(kept, uid, suffix))
    except OSError:
        connection.close()
        raise
    return connection


def _path(kept: str, uid: int, suffix: str) -> str:
    return os.path.join(kept, f"{_PREFIX}{uid}{suffix}")
