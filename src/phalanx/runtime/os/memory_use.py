"""The memory that commands use, with all their children."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping

from phalanx.runtime.os.process_tree import subtrees

_PAGE = os.sysconf("SC_PAGE_SIZE")
_PARENT, _SESSION, _RESIDENT = 1, 3, 21
"""The indexes of fields of /proc/PID/stat. They are counted from the state, which follows the name
(proc_pid_stat(5)).
"""


class SessionMemory:
    """Measures the memory of commands.

    A command leads a Unix session of its own, and is a subreaper (see `process_tree`): its memory
    is that of all processes of the session and of all its descendants. Resident sizes count shared
    pages several times, so they only decide which commands are measured exactly; the result is the
    sum of the proportional shares.
    """

    def above(self, limits: Mapping[int, int]) -> dict[int, int]:
        """Return the bytes that each command above its limit uses, by the command's Unix session.
        `limits`: the limit of each command, by Unix session.
        """
        if not limits:
            return {}
        there: dict[int, list[tuple[int, int]]] = {session: [] for session in limits}
        processes = list(_processes())
        below = subtrees(limits, {pid: parent for pid, parent, _, _ in processes})
        for pid, _, session, resident in processes:
            command = below.get(pid, session)
            if command in there:
                there[command].append((pid, resident))
        found = {}
        for session, limit in limits.items():
            if sum(resident for _, resident in there[session]) > limit:
                used = sum(_share(pid, resident) for pid, resident in there[session])
                if used > limit:
                    found[session] = used
        return found


def resident_below(roots: Iterable[int]) -> dict[int, int]:
    """Return the resident bytes of each of these processes, together with its descendants."""
    processes = list(_processes())
    below = subtrees(roots, {pid: parent for pid, parent, _, _ in processes})
    found: dict[int, int] = {}
    for pid, _, _, resident in processes:
        if pid in below:
            found[below[pid]] = found.get(below[pid], 0) + resident
    return found


def _processes() -> Iterator[tuple[int, int, int, int]]:
    """Yield (pid, parent, session, resident bytes) of every process of this machine."""
    for name in os.listdir("/proc"):
        if name.isdecimal():
            fields = _read(f"/proc/{name}/stat").rpartition(b")")[2].split()
            if len(fields) > _RESIDENT:
                parent, session = int(fields[_PARENT]), int(fields[_SESSION])
                yield int(name), parent, session, int(fields[_RESIDENT]) * _PAGE


def _share(pid: int, resident: int) -> int:
    """Return a process's proportional share of memory in bytes; its resident size if the kernel
    does not report the share.
    """
    for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return resident


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:  # the process has ended
        return b""
