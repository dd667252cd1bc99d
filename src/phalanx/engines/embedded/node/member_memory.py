"""Limits on the memory of commands: who uses more than it may is found, with all its children."""

from __future__ import annotations

import os
from collections.abc import Iterator

import msgspec

LOOK_EVERY_S = 0.5
_PAGE = os.sysconf("SC_PAGE_SIZE")
_SESSION, _RESIDENT = 3, 21
"""Fields of /proc/PID/stat, counted from the state, which follows the name (proc_pid_stat(5))."""


class _Limited(msgspec.Struct, eq=False):
    session: int
    limit: int


class MemoryWatch:
    """Commands with a limit, by their process ids of the runtime.

    A command leads a session of its own: what it uses is what all processes of that session do.
    Their resident sizes count what they share several times, so they are only the first look; what
    ends a command is the sum of its proportional shares.
    """

    def __init__(self) -> None:
        self._limits: dict[bytes, int] = {}
        self._running: dict[bytes, _Limited] = {}
        self._next = 0.0

    def limit(self, process: bytes, limit_bytes: int) -> None:
        """A command is to be started that may use so much; 0: what it likes."""
        if limit_bytes:
            self._limits[process] = limit_bytes

    def runs(self, process: bytes, pid: int) -> None:
        """It runs under this pid."""
        limit = self._limits.pop(process, 0)
        if limit:
            self._running[process] = _Limited(pid, limit)

    def ended(self, process: bytes) -> None:
        """It runs no longer."""
        self._limits.pop(process, None)
        self._running.pop(process, None)

    def above(self, now: float) -> Iterator[tuple[bytes, str]]:
        """Commands that use more than they may, and that in words. Looks twice a second."""
        if not self._running or now < self._next:
            return
        self._next = now + LOOK_EVERY_S
        found: dict[int, list[tuple[int, int]]] = {
            one.session: [] for one in self._running.values()
        }
        for pid, session, resident in _processes():
            if session in found:
                found[session].append((pid, resident))
        for process, one in list(self._running.items()):
            there = found[one.session]
            if sum(resident for _, resident in there) <= one.limit:
                continue
            used = sum(_share(pid, resident) for pid, resident in there)
            if used > one.limit:
                yield (
                    process,
                    f"it used {_text(used)} of memory, above its limit of {_text(one.limit)}",
                )


def _processes() -> Iterator[tuple[int, int, int]]:
    """(pid, session, resident bytes) of every process of this machine."""
    for name in os.listdir("/proc"):
        if name.isdecimal():
            fields = _read(f"/proc/{name}/stat").rpartition(b")")[2].split()
            if len(fields) > _RESIDENT:
                yield int(name), int(fields[_SESSION]), int(fields[_RESIDENT]) * _PAGE


def _share(pid: int, resident: int) -> int:
    """Its proportional share in bytes; its resident size where the kernel tells no shares."""
    for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return resident


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:  # it has ended
        return b""


def _text(size: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} GiB"
