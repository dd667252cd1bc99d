"""Leases on files. They show whether a file may be overwritten.

A file may be overwritten if no other process has it open or mapped, and if none of its pages wait
to be sent. The kernel confirms the first condition by granting a lease.
"""

from __future__ import annotations

import fcntl
import os
import signal
import stat


def is_ours_alone(fd: int) -> bool:
    """Whether a file is open only by this descriptor, and its pages were never sent.

    A mapping in another process counts as open, even one that a forked child has inherited. So does
    a descriptor that was opened before the file's name was removed. Returns False if the kernel or
    the file system grants no leases.
    """
    if fd < 0:
        return False
    try:
        # Otherwise the signal for a broken lease would be SIGIO, which would end the process.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except OSError:
        return False
    # This comes last. A process that has sent the file and closed it since then has marked the file
    # before.
    was_sent = not os.fstat(fd).st_mode & stat.S_IWUSR
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return not was_sent


def mark_sent(fd: int) -> None:
    """Mark a file whose pages will be sent without a copy, so that it is never overwritten. The
    pages may still be in a socket's queue after the descriptor is closed.
    """
    os.fchmod(fd, stat.S_IRUSR)
