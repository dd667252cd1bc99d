"""The pid by which other processes of the machine know this process.

In a container with pids of its own, `os.getpid()` returns another number.
"""

from __future__ import annotations

import os

_in_container = 0


def own_pid() -> int:
    """Return the pid that this process has outside its container."""
    return _in_container or os.getpid()


def note_own_pid(pid: int) -> None:
    """Note the pid that this process, which runs in a container, has outside it."""
    global _in_container
    _in_container = pid
