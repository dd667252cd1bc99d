"""This user's daemons, wherever their sessions lie: a file for each below the home directory.

Runtime directories differ between a login, cron, sudo and a service of the system, and may be
removed while daemons run. The home directory is the same, and may be that of several machines:
each file names the machine, and its start.
"""

from __future__ import annotations

import contextlib
import os
import socket

import msgspec

from phalanx.runtime.daemons.daemon_files import Announcement
from phalanx.runtime.os.real_disks import private_directory
from phalanx.runtime.os.session import Session, started_at

_BOOT = "/proc/sys/kernel/random/boot_id"


class Registered(msgspec.Struct, kw_only=True):
    """One daemon, on one machine."""

    host: str
    boot: str
    """Which start of the machine: process ids mean something within it alone."""
    session: Session
    daemon: Announcement

    @property
    def root(self) -> str:
        """The runtime directory that its session lies in."""
        return os.path.dirname(self.session.directory)


def register(session: Session, daemon: Announcement) -> None:
    """Let this user's programs find a daemon of this machine, unless it is private. Without a home
    directory that can be written to only those find it that have the same runtime directory."""
    if daemon.is_private:
        return
    one = Registered(host=socket.gethostname(), boot=_boot(), session=session, daemon=daemon)
    with contextlib.suppress(OSError):
        path = os.path.join(private_directory(_place()), f"{session.name}.json")
        fd = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(msgspec.json.encode(one))
        os.rename(path + ".new", path)


def registered() -> list[Registered]:
    """The living daemons of this machine, the latest first. Files of its dead ones are deleted."""
    place, host, boot = _place(), socket.gethostname(), _boot()
    found: list[tuple[int, Registered]] = []
    with contextlib.suppress(OSError):
        for name in os.listdir(place):
            path = os.path.join(place, name)
            try:
                with open(path, "rb") as file:
                    seen = os.fstat(file.fileno())
                    if seen.st_uid != os.getuid():  # sudo keeps the home directory of another user
                        continue
                    one = msgspec.json.decode(file.read(), type=Registered)
            except (OSError, msgspec.MsgspecError):
                continue
            if one.boot == boot and started_at(one.daemon.pid) == one.daemon.started:
                found.append((-seen.st_mtime_ns, one))
            elif one.host == host:
                with contextlib.suppress(OSError):
                    os.unlink(path)
    return [one for _, one in sorted(found, key=lambda pair: pair[0])]


def _place() -> str:
    return os.path.join(os.path.expanduser("~"), ".phalanx", "daemons")


def _boot() -> str:
    with contextlib.suppress(OSError), open(_BOOT) as file:
        return file.read().strip()
    return ""
