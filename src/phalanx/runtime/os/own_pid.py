"""The pid by which other processes of the machine know this process.

In a container with pids of its own, `os.getpid()` returns another number.
"""

from __future__ import annotations

import os

_in_container = 0


def own_pid() -> int:
    """Return the machine's pid of this process."""
    return _in_container or os.getpid()


def note_own_pid(pid: int) -> None:
    """Note the machine's pid of this process, which runs in a container."""
    global _in_container
    _in_container = pid
