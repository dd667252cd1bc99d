"""The registry of this user's daemons: a file for each, below the home directory.

Runtime directories differ between a login, cron, sudo and a system service, and may be removed
while daemons run. The home directory is always the same. Several machines may share it, so each
file names its machine, and the machine's boot.
"""

from __future__ import annotations

import contextlib
import os

import msgspec

from phalanx.runtime.daemons.daemon_files import Announcement
from phalanx.runtime.os.real_disks import private_directory
from phalanx.runtime.os.session import Session, started_at

_BOOT = "/proc/sys/kernel/random/boot_id"


class Registered(msgspec.Struct, kw_only=True):
    """A daemon on one machine."""

    host: str
    boot: str
    """The id of the machine's boot. Process ids have a meaning only within a boot."""
    session: Session
    daemon: Announcement

    @property
    def root(self) -> str:
        """The runtime directory that contains the session."""
        return os.path.dirname(self.session.directory)


def register(session: Session, daemon: Announcement) -> None:
    """Let this user's programs find a daemon of this machine, unless the daemon is private.

    If the home directory cannot be written to, only programs with the same runtime directory find
    the daemon.
    """
    if daemon.is_private:
        return
    one = Registered(host=os.uname().nodename, boot=_boot(), session=session, daemon=daemon)
    with contextlib.suppress(OSError):
        path = os.path.join(private_directory(_place()), f"{session.name}.json")
        fd = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(msgspec.json.encode(one))
        os.rename(path + ".new", path)


def registered() -> list[Registered]:
    """Return the living daemons of this machine, latest first. Files of dead daemons are deleted,
    and those of earlier nodes in a process that has restarted as another node.
    """
    place, host, boot = _place(), os.uname().nodename, _boot()
    found: list[tuple[int, str, Registered]] = []
    with contextlib.suppress(OSError):
        for name in os.listdir(place):
            path = os.path.join(place, name)
            try:
                with open(path, "rb") as file:
                    seen = os.fstat(file.fileno())
                    # under sudo, the home directory is that of another user
                    if seen.st_uid != os.getuid():
                        continue
                    one = msgspec.json.decode(file.read(), type=Registered)
            except (OSError, msgspec.MsgspecError):
                continue
            if one.boot == boot and started_at(one.daemon.pid) == one.daemon.started:
                found.append((-seen.st_mtime_ns, path, one))
            elif one.host == host:
                with contextlib.suppress(OSError):
                    os.unlink(path)
    latest: dict[int, Registered] = {}
    for _, path, one in sorted(found, key=lambda each: each[0]):
        if latest.setdefault(one.daemon.pid, one) is not one:
            with contextlib.suppress(OSError):
                os.unlink(path)
    return list(latest.values())


def _place() -> str:
    return os.path.join(os.path.expanduser("~"), ".phalanx", "daemons")


def _boot() -> str:
    with contextlib.suppress(OSError), open(_BOOT) as file:
        return file.read().strip()
    return ""
