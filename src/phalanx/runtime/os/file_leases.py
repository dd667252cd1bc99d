"""Whether a file may be written over: nobody else has it open or mapped, as the kernel says where
it grants a lease, and none of its pages wait to be sent."""

from __future__ import annotations

import fcntl
import os
import signal
import stat


def is_ours_alone(fd: int) -> bool:
    """Whether this is the only open file of its inode, mappings included, those that forked
    children have of others too, and it was never sent. Who opened it before it lost its name is
    counted. False where the kernel or the file system grants no leases."""
    if fd < 0:
        return False
    try:
        # What says that somebody breaks it, else SIGIO, would end the process.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except OSError:
        return False
    # Only now: who sent it and has closed it since has marked it before.
    was_sent = not os.fstat(fd).st_mode & stat.S_IWUSR
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return not was_sent


def mark_sent(fd: int) -> None:
    """Pages of this file are about to be sent without a copy, and may lie in a socket's queue after
    the descriptor is closed: it is never written over."""
    os.fchmod(fd, stat.S_IRUSR)
