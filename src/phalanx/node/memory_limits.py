"""Memory limits of commands, and which commands exceed them."""

from __future__ import annotations

import msgspec

from phalanx.model.attempts import OUT_OF_MEMORY
from phalanx.node.member_effects import MemoryMeter

LOOK_AT_MEMORY_EVERY_S = 0.5
"""Seconds between measurements of commands with a memory limit."""


class _Limited(msgspec.Struct, eq=False):
    limit_bytes: int
    pid: int = 0
    """The pid of the command; 0 until the command has begun."""


class MemoryLimits:
    """The commands of a node that have a memory limit, by the ids of their processes."""

    def __init__(self, meter: MemoryMeter) -> None:
        self._meter = meter
        self._limited: dict[bytes, _Limited] = {}
        self._look_at = 0.0

    def limit(self, process: bytes, limit_bytes: int) -> None:
        """Set the memory limit of a command that is about to start; 0 for no limit."""
        if limit_bytes:
            self._limited[process] = _Limited(limit_bytes)

    def began(self, process: bytes, pid: int) -> None:
        """Note the pid under which a command runs."""
        limited = self._limited.get(process)
        if limited is not None:
            limited.pid = pid

    def exited(self, process: bytes) -> None:
        """Forget a command that has ended."""
        self._limited.pop(process, None)

    def above(self, now: float) -> list[tuple[bytes, str]]:
        """Return the commands above their limits, each with a reason. Memory is measured at
        intervals; in between, nothing is returned.
        """
        if not self._limited or now < self._look_at:
            return []
        self._look_at = now + LOOK_AT_MEMORY_EVERY_S
        begun = {process: one for process, one in self._limited.items() if one.pid}
        above = self._meter.above({one.pid: one.limit_bytes for one in begun.values()})
        return [
            (process, _why(above[one.pid], one.limit_bytes))
            for process, one in begun.items()
            if one.pid in above
        ]


def _why(used: int, limit: int) -> str:
    return f"{OUT_OF_MEMORY}: it used {_text(used)}, above its limit of {_text(limit)}"


def _text(size: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} GiB"
