"""Announcements of daemons: to the process that starts a daemon, and in a file that other processes
find.
"""

from __future__ import annotations

import contextlib
import json
import os

import msgspec

from phalanx.runtime.os.session import Session, owner_of, read_session, started_at

_NAME = "daemon"
OF_PROGRAM = "pid:"
"""The prefix of the address of a program's own session. The program's process id follows it."""


OF_SOCKET = "unix:"
"""The prefix of an address that names a head by a directory. The directory has the head's socket
for other users.
"""
OF_CLIENT = "phalanx://"
"""The prefix of the address of a cluster on which a client's driver is to run. Commands ignore the
prefix.
"""
STANDBY = "standby"
"""The kind of a head's process that waits until no other head holds the store."""
REMOTE = "remote"
"""The kind of a head that programs reach over the network, with a token."""


class Announcement(msgspec.Struct, kw_only=True):
    """The announcement of a daemon. The daemon is alive while a process with this pid and start
    time exists.
    """

    kind: str
    """The kind of daemon: head, standby or node."""
    pid: int
    started: str
    address: str
    """HOST:PORT of the cluster's head; of a standby, the address at which it would be the head."""
    token_file: str
    standbys: tuple[str, ...] = ()
    """HOST:PORT of each other machine that may have the head later."""
    node_id: str = ""
    name: str = ""
    """The name under which a node is shown."""
    cluster: str = ""
    """The cluster of a node, by its name in the cluster's store; "" if the node has none."""
    is_private: bool = False
    uid: int = -1
    """The account of a head of another user; -1 for this user's own daemons."""
    shared: str = ""
    """The directory through which other users reach this head; "" if they cannot reach it."""
    fingerprint: str = ""
    """The SHA-256 of the certificate that the head shows, in hex; "" without TLS."""


class Failure(msgspec.Struct):
    """A human-readable reason why a daemon could not start."""

    reason: str
    is_about_token: bool = False


def announce(session: Session, ready_fd: int, what: Announcement | Failure) -> None:
    """Announce that the daemon serves, or why it cannot."""
    ready = msgspec.to_builtins(what)
    if isinstance(what, Announcement):
        path = os.path.join(session.directory, _NAME)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "w") as file:
            json.dump(ready, file)
    if ready_fd >= 0:
        with contextlib.suppress(OSError):
            os.write(ready_fd, json.dumps(ready).encode() + b"\n")
            os.close(ready_fd)


def announced(directory: str) -> Announcement | None:
    """Return the daemon, living or dead, whose session is in this directory; None if no daemon has
    announced itself there.
    """
    try:
        with open(os.path.join(directory, _NAME)) as file:
            return msgspec.convert(json.load(file), Announcement)
    except (OSError, ValueError):
        return None


def address_of(session: Session) -> str:
    """Return the address by which drivers of this machine find this session.

    The address is HOST:PORT of the cluster's head, or `pid:PID` of a program with its own session.
    """
    daemon = announced(session.directory)
    if daemon is not None:
        return daemon.address
    return f"{OF_PROGRAM}{owner_of(session.directory)}"


def daemons(root: str) -> list[tuple[Session, Announcement]]:
    """Return the living daemons under a runtime root, latest first."""
    found = []
    for name in os.listdir(root):
        directory = os.path.join(root, name)
        try:
            with open(os.path.join(directory, _NAME)) as file:
                one = msgspec.convert(json.load(file), Announcement)
            session = read_session(directory)
            age = os.stat(os.path.join(directory, _NAME)).st_mtime_ns
        except (OSError, ValueError, msgspec.ValidationError):
            continue
        if started_at(one.pid) == one.started:
            found.append((age, session, one))
    found.sort(key=lambda entry: -entry[0])
    return [(session, one) for _, session, one in found]
