"""The processes that started a process: its parent, the parent of its parent, and so on."""

from __future__ import annotations

from phalanx.observe.devices import MAX_ANCESTORS

_PARENT = 1
"""The index of the parent's pid among the fields of /proc/PID/stat that follow the name
(proc_pid_stat(5)).
"""


def ancestors(pid: int) -> tuple[int, ...]:
    """Return the parent of a process, the parent of that parent, and so on; empty if the process
    has ended.
    """
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
