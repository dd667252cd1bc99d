"""The socket of a head for other users of its machine, and the search for such sockets.

The head makes ROOT/PORT/s/control. ROOT is the directory in PHALANX_SHARED_DIR, if that is set.
Otherwise it is /run/phalanx for a head that root has started. For any other head, it is a directory
of the head's user below /tmp. A command that is given no address finds the sockets below
/run/phalanx and PHALANX_SHARED_DIR. Any other socket must be named as `unix:ROOT/PORT`: anybody may
make directories in /tmp, so a head there is trusted only if its user is named.
"""

from __future__ import annotations

import contextlib
import grp
import json
import os
import shutil
import socket
import stat

import msgspec

from phalanx.runtime.daemons.daemon_files import OF_SOCKET, Announcement
from phalanx.runtime.os.session import Session, started_at

SHARED_DIR = "PHALANX_SHARED_DIR"
_OF_ROOT = "/run/phalanx"
_FILE = "daemon"
Found = list[tuple[Session, Announcement]]


class SharedSocket:
    """The listening socket of a head for other users."""

    def __init__(self, port: int, group: str) -> None:
        """Make the socket for a head that listens on `port`. The socket is for the members of a
        group of accounts or, without a group, for everybody. Raises OSError and ValueError.
        """
        self.directory = os.path.join(_own_root(), str(port))
        # the socket was left by a head that was killed
        shutil.rmtree(self.directory, ignore_errors=True)
        _open_directory(self.directory)
        session = _session(self.directory)
        _open_directory(session.sockets)
        path = session.socket_of(b"control")
        self.listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listening.bind(path)
        if group:
            os.chown(path, -1, _group_id(group))
        os.chmod(path, 0o660 if group else 0o666)
        self.listening.listen(512)
        self.listening.setblocking(False)

    def announce(self, daemon: Announcement) -> None:
        """Tell other users to which head this socket belongs."""
        open_to_all = msgspec.structs.replace(daemon, token_file="", uid=os.getuid())
        path = os.path.join(self.directory, _FILE)
        with open(path, "w") as file:
            json.dump(msgspec.to_builtins(open_to_all), file)
        os.chmod(path, 0o644)

    def close(self) -> None:
        """Remove the socket."""
        self.listening.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def shared_heads(address: str | None = None) -> Found:
    """Return the heads of other users that this user may ask.

    `address`: `unix:DIRECTORY` of one head, HOST:PORT, or None for all heads. Raises
    PermissionError for a named directory that others could have replaced.
    """
    if address is not None and address.startswith(OF_SOCKET):
        directory = os.path.abspath(address.removeprefix(OF_SOCKET))
        found = _head_in(directory)
        return [] if found is None else [found]
    heads = []
    for root in dict.fromkeys(filter(None, (os.environ.get(SHARED_DIR), _OF_ROOT))):
        with contextlib.suppress(OSError):
            for name in sorted(os.listdir(root)):
                with contextlib.suppress(PermissionError):
                    heads.append(_head_in(os.path.join(root, name)))
    found_here = [head for head in heads if head is not None]
    return [head for head in found_here if address in (None, head[1].address)]


def _head_in(directory: str) -> tuple[Session, Announcement] | None:
    """Return the living head with this directory; None if the directory has none. Raises
    PermissionError.
    """
    try:
        owner = _owner_of(directory)
        with open(os.path.join(directory, _FILE)) as file:
            daemon = msgspec.convert(json.load(file), Announcement)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    if daemon.uid != owner or started_at(daemon.pid) != daemon.started:
        return None
    return _session(directory), daemon


def _owner_of(directory: str) -> int:
    """Return the account to which a directory belongs. Raises PermissionError if other accounts can
    replace the directory or its files.
    """
    found = os.lstat(directory)
    if not stat.S_ISDIR(found.st_mode) or found.st_mode & 0o022:
        raise PermissionError(
            f"{directory} is open to writers other than its user: it is no directory of a head"
        )
    above = os.stat(os.path.dirname(directory))
    is_sticky = bool(above.st_mode & stat.S_ISVTX)
    if above.st_uid not in (0, found.st_uid) or (above.st_mode & 0o022 and not is_sticky):
        raise PermissionError(
            f"{os.path.dirname(directory)} is open to writers other than the head's user"
        )
    return found.st_uid


def _own_root() -> str:
    """Return the directory for the sockets of this user's heads, and make it if necessary."""
    chosen = os.environ.get(SHARED_DIR)
    root = chosen or (_OF_ROOT if os.getuid() == 0 else f"/tmp/phalanx-shared-{os.getuid()}")
    _open_directory(root)
    return root


def _open_directory(path: str) -> None:
    """Make a directory that everybody may read and only this user may write to.

    Raises PermissionError if the directory exists with other rights.
    """
    try:
        os.mkdir(path)
        os.chmod(path, 0o755)
    except FileExistsError:
        found = os.lstat(path)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
            raise PermissionError(
                f"{path} must be a directory of this user that only this user can write: remove "
                f"it, or name another in {SHARED_DIR}"
            ) from None


def _group_id(group: str) -> int:
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        raise ValueError(f"there is no group {group!r} on this machine") from None


def _session(directory: str) -> Session:
    return Session(
        name=os.path.basename(directory),
        directory=directory,
        shared=directory,
        spill=directory,
        disk=directory,
    )
