"""Directories of this user on a real disk, for data that may be large and need not be fast."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Sequence

_MOUNTS = "/proc/self/mountinfo"
_IN_MEMORY = {"tmpfs", "ramfs", "devtmpfs"}
LASTING = "/var/tmp"
"""A directory whose files survive a restart of the machine. It is on a disk even if /tmp is not."""


def private_directory(base: str) -> str:
    """Return `base`, a directory of this user with mode 0700. The directory is made if it does not
    exist.

    Raises PermissionError if it is not private, and OSError if it cannot be made.
    """
    with contextlib.suppress(FileExistsError):
        os.makedirs(base, mode=0o700)
    found = os.lstat(base)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(
            f"{base} must be a directory of this user with mode 0700, and it is not. "
            "Remove it, or set XDG_RUNTIME_DIR to a private directory."
        )
    return base


def first_on_disk(bases: Sequence[str], otherwise: str) -> str:
    """Return the first of these directories that can be used and is on a disk.

    If none is on a disk, return the first one that can be used. If none can be used, return
    `otherwise`.
    """
    usable = []
    for base in dict.fromkeys(bases):
        with contextlib.suppress(OSError):
            usable.append(private_directory(base))
            if not is_in_memory(base):
                return base
    return next(iter(usable), otherwise)


def is_in_memory(path: str, mounts: str = _MOUNTS) -> bool:
    """Whether the files in a directory are in memory, so that they are gone after a restart of the
    machine.
    """
    device = os.stat(path).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    with contextlib.suppress(OSError), open(mounts) as file:
        for line in file:
            fields = line.split()
            if fields[2] == wanted:
                return fields[fields.index("-") + 1] in _IN_MEMORY
    return False
