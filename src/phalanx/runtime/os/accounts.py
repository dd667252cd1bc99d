"""The account of this process, by name, and its file mode mask."""

from __future__ import annotations

import getpass
import os


def user_name() -> str:
    """Return the name of this process's account; "" if the machine knows no name for the
    account.
    """
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def current_umask() -> int:
    """Return the file mode creation mask of this process, without changing it.

    Other threads may be making files, and the system call that returns the mask also changes it. So
    the mask is read from /proc.
    """
    try:
        with open("/proc/self/status") as file:
            return next(int(line.split()[1], 8) for line in file if line.startswith("Umask:"))
    except (OSError, StopIteration):
        mask = os.umask(0o077)
        os.umask(mask)
        return mask
