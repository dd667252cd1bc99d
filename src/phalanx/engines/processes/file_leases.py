"""Whether anybody else has a file open or mapped, which the kernel says where it grants a lease."""

from __future__ import annotations

import fcntl


def is_ours_alone(fd: int) -> bool:
    """Whether this is the only open file of its inode, mappings included, those that forked
    children have of others too. Who opened it before it lost its name is counted. False where the
    kernel or the file system grants no leases."""
    try:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except OSError:
        return False
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return True
