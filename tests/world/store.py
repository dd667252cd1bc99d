"""The head's store: a journal and a ledger of attempts, which write when the test says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phalanx.model.attempts import Used, UsedRow
from phalanx.model.steps import Step, StepRow
from phalanx.storage.memory import MemoryDisk, MemoryShard
from phalanx.storage.storage import Storage

Changes = dict[tuple[str, bytes], bytes | None]


class Journal:
    """Writes immediately, or, with `is_slow`, when the test says so. It writes nothing while it is
    stalled.
    """

    def __init__(self, disk: MemoryDisk | None = None, *, is_slow: bool = False) -> None:
        self.disk = disk or MemoryDisk()
        self.storage = Storage([MemoryShard(self.disk)])
        self.is_slow = is_slow
        self.is_stalled = False
        self.shortage = ""
        self.records: list[tuple[Changes, Callable[[], None] | None]] = []
        """The records that are not written yet."""

    def record(self, changes: Changes, durable: Callable[[], None] | None = None) -> None:
        self.records.append((dict(changes), durable))
        if not (self.is_slow or self.is_stalled):
            self.write()

    def flush(self) -> None:
        """Do nothing: the test decides when a slow journal writes."""

    def write(self) -> None:
        """Write all that was recorded."""
        while self.records:
            changes, durable = self.records.pop(0)
            self.storage.apply(changes)
            if durable is not None:
                durable()

    def next_head(self) -> Journal:
        """Return the journal of the next head, which reads what this one has written."""
        return Journal(self.disk, is_slow=self.is_slow)


class Ledger:
    """Stores records by key, when the test says so. It outlives heads."""

    def __init__(self) -> None:
        self.rows: dict[bytes, Any] = {}
        self.used: dict[bytes, Used] = {}
        self.steps: dict[bytes, Step] = {}
        self.waiting: list[Any] = []

    def add(self, rows: Any, kept: Callable[[], None]) -> None:
        self.waiting.append((list(rows), kept))

    def keep(self) -> None:
        """Store all records that were handed over."""
        waiting, self.waiting = self.waiting, []
        for rows, kept in waiting:
            for row in rows:
                if isinstance(row, UsedRow):
                    self.used[row.key] = row.used
                elif isinstance(row, StepRow):
                    self.steps.setdefault(row.key, row.step)
                else:
                    self.rows.setdefault(row.key, row.attempt)
            kept()
