"""Simulated storage: writes that take time, and what a crash leaves of them."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

from phalanx.sim.chaos.hosts import Host
from phalanx.storage.journal import Durable
from phalanx.storage.shard import Batch, Row
from phalanx.storage.storage import Storage


class SimJournal:
    """Group commit as `storage.journal.Journal` does it, in simulated time and without a thread.

    Writes happen in order, one at a time; `durable` is called after the write, never before.
    """

    def __init__(
        self,
        storage: Storage,
        host: Host,
        rng: random.Random,
        write_s: tuple[float, float],
        settled: Callable[[], None],
    ) -> None:
        """`settled` is called when answers may have been recorded by a `durable`."""
        self._storage = storage
        self._host = host
        self._rng = rng
        self._write_s = write_s
        self._settled = settled
        self._recorded: list[tuple[Batch, Durable | None]] = []
        self._queue: deque[tuple[Batch, Durable | None]] = deque()
        self._is_writing = False
        self._is_dead = False

    def record(self, changes: Batch, durable: Durable | None = None) -> None:
        """See Journal.record."""
        self._recorded.append((dict(changes), durable))

    def flush(self) -> None:
        """See Journal.flush."""
        self._queue.extend(self._recorded)
        self._recorded.clear()
        if self._queue and not self._is_writing:
            self._is_writing = True
            self._host.later(self._rng.uniform(*self._write_s), self._write)

    def _write(self) -> None:
        if self._is_dead:
            return
        records, self._queue = self._queue, deque()
        self._apply(records)
        self._is_writing = False
        for _, durable in records:
            if durable is not None:
                durable()
        self._settled()
        self.flush()

    def _apply(self, records: deque[tuple[Batch, Durable | None]]) -> None:
        merged: dict[Row, bytes | None] = {}
        for changes, _ in records:
            merged.update(changes)
        self._storage.apply(merged)

    def crash(self) -> None:
        """The process is gone: of what was handed to the disk the first part is there."""
        self._is_dead = True
        kept = self._rng.randint(0, len(self._queue))
        while len(self._queue) > kept:
            self._queue.pop()
        self._apply(self._queue)

    def fileno(self) -> int:
        """Nothing waits on descriptors here."""
        return -1

    def close(self) -> None:
        """Nothing to let go of."""
