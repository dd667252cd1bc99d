"""Exit files, in which the shield of a command writes how the command has ended, even when its node
is gone.

An exit file belongs to one command. Once the command has begun, its shield writes two process ids
into the file: its own and the command's. Once the command has ended, the shield adds the result of
waitid(2). So a later process of the node finds both. The shield keeps the file open as its
descriptor 0 as long as it lives. This distinguishes the shield from another process that gets its
id later.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from typing import NamedTuple

_PIDS = struct.Struct("=ii")
INFO_AT = 16
INFO_BYTES, USAGE_BYTES = 128, 144
"""The sizes of siginfo_t and of struct rusage on machines of 64 bits."""
_INFO = struct.Struct("=iii4xiIi")
"""The form of these fields of SIGCHLD (sigaction(2)): si_signo, si_errno, si_code, si_pid, si_uid,
si_status.
"""
_USAGE = struct.Struct("=5q")
"""The form of these fields (getrusage(2)): ru_utime and ru_stime in seconds and microseconds,
ru_maxrss in KiB.
"""
_EXITED, _KILLED = 1, 2
"""CLD_EXITED and CLD_KILLED. With CLD_EXITED, si_status is an exit code. With all other values of
si_code, it is the number of a signal.
"""
_LENGTH = INFO_AT + INFO_BYTES + USAGE_BYTES


class Ending(NamedTuple):
    """The contents of an exit file."""

    shield: int
    pid: int
    code: int | None
    """How the command ended: an exit code or, negative, a signal; None if the file does not say
    that the command has ended.
    """
    cpu_s: float = 0.0
    memory: int = 0
    """The command's largest memory, as in Exited."""


def open_exit_file(path: str) -> int:
    """Make an empty exit file. It replaces an earlier file. Returns a descriptor. Raises
    OSError.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    fcntl.flock(fd, fcntl.LOCK_SH)
    return fd


def write_pids(fd: int, shield: int, pid: int) -> None:
    """Write that the command has begun."""
    os.pwrite(fd, _PIDS.pack(shield, pid), 0)


def write_ending(fd: int, pid: int, code: int, cpu_s: float, memory: int) -> None:
    """Write how the command ended, in the form that its shield writes."""
    kind, status = (_EXITED, code) if code >= 0 else (_KILLED, -code)
    info = _INFO.pack(0, 0, kind, pid, 0, status).ljust(INFO_BYTES, b"\0")
    usage = _USAGE.pack(int(cpu_s), int(cpu_s % 1 * 1e6), 0, 0, memory // 1024)
    os.pwrite(fd, info + usage.ljust(USAGE_BYTES, b"\0"), INFO_AT)


def read_exit_file(path: str) -> Ending | None:
    """Return the contents of an exit file; None if the file does not exist, or if the command has
    not begun.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(_LENGTH)
    except OSError:
        return None
    if len(data) < _PIDS.size:
        return None
    shield, pid = _PIDS.unpack_from(data)
    if len(data) < _LENGTH:
        return Ending(shield, pid, None)
    _, _, kind, _, _, status = _INFO.unpack_from(data, INFO_AT)
    user, user_us, system, system_us, most = _USAGE.unpack_from(data, INFO_AT + INFO_BYTES)
    cpu_s = user + system + (user_us + system_us) / 1e6
    return Ending(shield, pid, status if kind == _EXITED else -status, cpu_s, most * 1024)


def is_held(path: str) -> bool:
    """Whether a living process holds this exit file open: the shield that will write it, or the
    process that is just starting that shield.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def is_shield_of(shield: int, path: str) -> bool:
    """Whether this process lives and is the shield that writes the exit file."""
    with contextlib.suppress(OSError):
        held, file = os.stat(f"/proc/{shield}/fd/0"), os.stat(path)
        return (held.st_dev, held.st_ino) == (file.st_dev, file.st_ino)
    return False
