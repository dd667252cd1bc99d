"""The drivers and workers of a node, with those that ended recently."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

KEEP_ENDED = 1_000
"""The number of ended processes that are remembered."""


class ProcessRecord(msgspec.Struct, kw_only=True, eq=False):
    """The record of a process. Times are in seconds since the epoch."""

    process: bytes
    kind: str
    """The kind of process: DRIVER or WORKER."""
    pid: int
    began: float
    ended: float = 0.0
    """The time when the process ended; 0 while it lives."""
    how: str = ""
    """How the process ended, in capitals, as in WorkerDied."""
    reason: str = ""


class ProcessHistory:
    """The processes of a node, from their introduction to their end. The processes that ended last
    are kept, too.
    """

    def __init__(self, wall: Callable[[], float]) -> None:
        """`wall` returns seconds since the epoch."""
        self._wall = wall
        self._living: dict[bytes, ProcessRecord] = {}
        self._ended: dict[bytes, ProcessRecord] = {}
        self.when_ended: Callable[[bytes], None] = lambda process: None

    def began(self, process: bytes, kind: str, pid: int) -> None:
        """Add a process that has introduced itself."""
        self._living[process] = ProcessRecord(
            process=process, kind=kind, pid=pid, began=self._wall()
        )

    def ended(self, process: bytes, how: str, reason: str) -> None:
        """Note that a process has ended. A process that never introduced itself is ignored."""
        record = self._living.pop(process, None)
        if record is None:
            return
        record.ended, record.how, record.reason = self._wall(), how, reason
        self._ended[process] = record
        if len(self._ended) > KEEP_ENDED:
            del self._ended[next(iter(self._ended))]
        self.when_ended(process)

    def get(self, process: bytes) -> ProcessRecord | None:
        """Return the record of a process, living or ended; None if it is unknown."""
        return self._living.get(process) or self._ended.get(process)

    def living(self) -> list[ProcessRecord]:
        """Return the living processes."""
        return list(self._living.values())

    def all(self) -> list[ProcessRecord]:
        """Return the living processes, then those that ended recently."""
        return [*self._living.values(), *self._ended.values()]
