"""Who started a process, and who started that one."""

from __future__ import annotations

from phalanx.observe.devices import MAX_ANCESTORS

_PARENT = 1
"""Of the fields of /proc/PID/stat behind the name (proc_pid_stat(5))."""


def ancestors(pid: int) -> tuple[int, ...]:
    """The parent of a process, that one's parent, and so on; none of one that has ended."""
    found: list[int] = []
    while len(found) < MAX_ANCESTORS:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                pid = int(file.read().rpartition(b")")[2].split()[_PARENT])
        except (OSError, ValueError, IndexError):
            break
        if pid <= 1:
            break
        found.append(pid)
    return tuple(found)
