"""Measures what commands use, in a thread."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection

from phalanx.node.usage import Processes
from phalanx.runtime.os.process_tree import subtrees

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PARENT, _USER, _CHILDREN_SYSTEM, _RESIDENT, _SESSION = 1, 11, 14, 21, 3
"""The indexes of fields of /proc/PID/stat, counted from the state, which follows the name
(proc_pid_stat(5)). The times are those of the process in user and kernel mode, and of its children
that were reaped.
"""


class ThreadUsageMeter:
    """Measures what commands use, in a thread.

    A command leads a Unix session of its own, and is a subreaper: all processes of that session,
    and all descendants of the command, are measured with it. A page that two processes share counts
    twice.
    """

    def __init__(self) -> None:
        self._looking: threading.Thread | None = None
        self._seen: Processes | None = None

    def ask(self, pids: Collection[int]) -> None:
        """Begin to measure these commands, if no measurement is in progress."""
        if self._looking is None or not self._looking.is_alive():
            args = (tuple(pids),)
            self._looking = threading.Thread(target=self._look, args=args, daemon=True)
            self._looking.start()

    def answer(self) -> Processes | None:
        """Return the requested measurement in the first call after it is ready; None in all other
        calls.
        """
        if self._looking is not None and self._looking.is_alive():
            return None
        seen, self._seen = self._seen, None
        return seen

    def _look(self, pids: Collection[int]) -> None:
        self._seen = look_at(pids)


def look_at(commands: Collection[int]) -> dict[int, tuple[float, int]]:
    """Return (CPU seconds, resident bytes) of each living command, together with its
    descendants.
    """
    processes: dict[int, list[bytes]] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            fields = _stat(name)
            if len(fields) > _RESIDENT:
                processes[int(name)] = fields
    below = subtrees(commands, {pid: int(f[_PARENT]) for pid, f in processes.items()})
    found: dict[int, tuple[float, int]] = {pid: (0.0, 0) for pid in commands if pid in processes}
    for pid, fields in processes.items():
        command = below.get(pid, int(fields[_SESSION]))
        if command in found:
            cpu_s, memory = found[command]
            ticks = sum(map(int, fields[_USER : _CHILDREN_SYSTEM + 1]))
            found[command] = cpu_s + ticks * _TICK_S, memory + int(fields[_RESIDENT]) * _PAGE
    return found


def _stat(pid: str) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:  # the process has ended
        return []
