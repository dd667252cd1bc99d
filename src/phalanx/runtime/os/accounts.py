"""Whose account a process runs in, by name, and how files are made for it."""

from __future__ import annotations

import getpass
import os


def user_name() -> str:
    """By this process's account; "" where the machine knows no name for it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def current_umask() -> int:
    """The file mode creation mask of this process, which is left as it is. Other threads may be
    making files: the kernel tells the mask only to who sets another, so it is read from /proc."""
    try:
        with open("/proc/self/status") as file:
            return next(int(line.split()[1], 8) for line in file if line.startswith("Umask:"))
    except (OSError, StopIteration):
        mask = os.umask(0o077)
        os.umask(mask)
        return mask
