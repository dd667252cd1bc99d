"""Simulated storage with slow writes, disks that fill up, and data that is lost in a crash."""

from __future__ import annotations

import contextlib
import random
from collections import deque
from collections.abc import Callable
from functools import partial

from phalanx.storage.errors import StorageFullError
from phalanx.storage.journal import LOOK_S, Durable
from phalanx.storage.memory import MemoryDisk
from phalanx.storage.shard import Batch, Head, Row
from phalanx.storage.storage import Storage
from phalanx_research.chaos.hosts import Host

LATEST = 5


class SimDisk(MemoryDisk):
    """A head's disk. It can lose the last batches that were written."""

    def __init__(self) -> None:
        super().__init__("simulated")
        self._undone: deque[tuple[Head, dict[Row, bytes | None]]] = deque(maxlen=LATEST)
        """The rows before each of the last batches, the latest batch last."""
        self._lost: list[tuple[Head, dict[Row, bytes | None]]] = []

    def before(self, batch: Batch) -> None:
        """Record the present rows before a batch is written."""
        self._undone.append((self.head, self._content(batch)))

    def tear(self, batches: int) -> bool:
        """Lose the last batches. Returns False if none can be lost."""
        while batches and self._undone:
            batches -= 1
            head, rows = self._undone.pop()
            self._lost.append((self.head, self._content(rows)))
            self._put(head, rows)
        return bool(self._lost)

    def mend(self) -> None:
        """Restore the lost batches from a copy."""
        while self._lost:
            self._put(*self._lost.pop())

    def _content(self, rows: Batch) -> dict[Row, bytes | None]:
        return {(table, key): self.tables.get(table, {}).get(key) for table, key in rows}

    def _put(self, head: Head, rows: dict[Row, bytes | None]) -> None:
        self.head = head
        for (table, key), value in rows.items():
            found = self.tables.setdefault(table, {})
            if value is None:
                found.pop(key, None)
            else:
                found[key] = value


_SPLIT = 0.3
"""The fraction of deliveries that are split into two parts, if this is allowed."""
_APART_S = 0.05


class SimJournal:
    """A journal with group commit like `storage.journal.Journal`, in simulated time and without a
    thread. Writes happen in order, one at a time, and `durable` is called only after the write. A
    batch for which the disk has no room is tried again.
    """

    def __init__(
        self,
        storage: Storage,
        disk: SimDisk,
        host: Host,
        rng: random.Random,
        write_s: tuple[float, float],
        settled: Callable[[], None],
        parts: random.Random | None,
    ) -> None:
        """`settled` is called after callbacks `durable` were called, because they may have recorded
        answers. `parts` draws which part of a write is reported first; None: the whole write is
        reported together.
        """
        self._storage = storage
        self._disk = disk
        self._host = host
        self._rng = rng
        self._write_s = write_s
        self._settled = settled
        self._parts = parts
        self._recorded: list[tuple[Batch, Durable | None]] = []
        self._queue: deque[tuple[Batch, Durable | None]] = deque()
        self._is_writing = False
        self._is_dead = False
        self.is_stalled = False

    @property
    def shortage(self) -> str:
        """Return why nothing can be written; empty if writing works."""
        return self._storage.shortage()

    def record(self, changes: Batch, durable: Durable | None = None) -> None:
        """Queue changes for the next write."""
        self._recorded.append((dict(changes), durable))

    def flush(self) -> None:
        """Start a write, unless a write is in progress."""
        self._queue.extend(self._recorded)
        self._recorded.clear()
        if self._queue and not self._is_writing:
            self._is_writing = True
            self._host.later(self._rng.uniform(*self._write_s), self._write)

    def _write(self) -> None:
        records, self._queue = self._queue, deque()
        self._write_until_there_is_room(records)

    def _write_until_there_is_room(self, records: deque[tuple[Batch, Durable | None]]) -> None:
        if self._is_dead:
            return
        try:
            self._apply(records)
        except StorageFullError:
            self.is_stalled = True
            self._host.later(LOOK_S, partial(self._write_until_there_is_room, records))
            return
        self.is_stalled = False
        durables = deque(durable for _, durable in records if durable is not None)
        self._deliver(durables)

    def _deliver(self, durables: deque[Durable]) -> None:
        """Call these callbacks, in one or two parts, because the thread of a real writer passes
        them on one by one.
        """
        if self._is_dead:
            return
        is_split = self._parts is not None and len(durables) > 1 and self._parts.random() < _SPLIT
        count = self._parts.randrange(1, len(durables)) if is_split and self._parts else None
        for _ in range(len(durables) if count is None else count):
            durables.popleft()()
        self._settled()
        if durables and self._parts is not None:
            self._host.later(self._parts.uniform(0.0, _APART_S), partial(self._deliver, durables))
            return
        self._is_writing = False
        self.flush()

    def _apply(self, records: deque[tuple[Batch, Durable | None]]) -> None:
        merged: dict[Row, bytes | None] = {}
        for changes, _ in records:
            merged.update(changes)
        if merged and not self._disk.is_full:  # an empty disk has no batches to lose
            self._disk.before(merged)
        self._storage.apply(merged)

    def crash(self) -> None:
        """End the process. Only a first part of the pending data is written."""
        self._is_dead = True
        kept = self._rng.randint(0, len(self._queue))
        while len(self._queue) > kept:
            self._queue.pop()
        with contextlib.suppress(StorageFullError):
            self._apply(self._queue)

    def fileno(self) -> int:
        return -1

    def close(self) -> None:
        """Do nothing: there is nothing to release."""
