"""The journal of a store: a loop records changes, a thread writes several of them together, and the
loop is notified when they are written.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from phalanx.storage.errors import StorageError, StorageFullError
from phalanx.storage.shard import Batch, Row

BATCH_ROWS = 2_000
"""The largest number of rows of one batch, so that no write takes long."""
BATCH_BYTES = 8 * 2**20
"""The largest number of bytes of one batch, unless a single record has more."""
QUEUE_BYTES = 256 * 2**20
"""The largest number of bytes that may wait to be written. More waiting bytes are an error, because
the store is then far slower than the cluster.
"""
LOOK_S = 1.0
"""Seconds between two checks of the store's free space, and between two tries to write a batch for
which there was no space.
"""
MERGED_RECORDS = 1_000
"""The number of waiting records above which they are merged while the store is full. So the memory
for them grows with the number of changed rows, and not with the time for which the store is full.
"""
LINGER_S = 0.04
"""Seconds for which changes that nobody waits for may stay unwritten, so that changes that somebody
waits for can join their batch. Each batch costs a flush of the disk, and the next batch waits for
this flush.
"""
_ROW_BYTES = 64
"""The number of bytes that a row counts in addition to its key and value."""

Durable = Callable[[], None]
"""A function that the loop's thread calls when a record is written, such as to send an answer."""


class Written(Protocol):
    """The store that a journal writes to."""

    def apply(self, batch: Batch) -> None:
        """Write a batch durably, as `Storage.apply` does."""
        ...

    def shortage(self) -> str:
        """Return why the store has too little room for new work; "" if it has enough."""
        ...

    def close(self) -> None:
        """Close the store."""
        ...


class _Record(NamedTuple):
    changes: Batch
    durables: tuple[Durable, ...]
    bytes: int


class Journal:
    """Writes to a store in the order of recording, without making its caller wait for the disk.

    One thread with a loop uses a journal. The loop calls `record` for the changes while it handles
    messages, `flush` when all messages are handled and at least every 50 ms, and `deliver` when
    `fileno()` is readable.

    The function `durable` of a record is called when this record and all earlier records are
    written. The function can send messages that must not be sent before. A record is never split
    over two batches. Successive records are merged, so a row that changes often is written once. A
    batch for which the store has no room is tried again, and all later batches wait for it. Any
    other failure is final: nothing after it is written, and `record`, `flush`, `deliver` and
    `drain` raise it. Once the journal is constructed, only its thread uses the store.
    """

    def __init__(self, storage: Written, linger_s: float = LINGER_S) -> None:
        """`linger_s`: the seconds for which `flush` may leave changes that nobody waits for."""
        self._storage = storage
        self._linger_s = linger_s
        self._recorded: list[_Record] = []
        self._is_awaited = False
        """Whether a recorded change has a function `durable`."""
        self._recorded_s = 0.0
        """When the oldest of the recorded changes was recorded."""
        self._condition = threading.Condition()
        self._queue: deque[_Record] = deque()
        self._written: deque[Durable] = deque()
        self._waiting_bytes = 0
        self._is_writing = False
        self._is_closing = False
        self._failure: BaseException | None = None
        self.shortage = storage.shortage()
        """The reason why the store has too little room for new work, for display; "" if it has
        enough.
        """
        self.is_stalled = False
        """Whether the store is too full to be written now."""
        self.on_commit: Callable[[float], None] = lambda seconds: None
        """The function that the loop's thread calls after each batch, with the seconds that its
        writing took.
        """
        self._took: deque[float] = deque()
        self._looked_s = time.monotonic()
        self._readable, self._signal = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="phalanx-journal", daemon=True)
        self._thread.start()

    @property
    def waiting_bytes(self) -> int:
        """The bytes that wait to be written."""
        return self._waiting_bytes

    def fileno(self) -> int:
        """Return a file descriptor that is readable when `deliver` must be called."""
        return self._readable

    def record(self, changes: Batch, durable: Durable | None = None) -> None:
        """Queue changes that are written together. Raises StorageError when more than QUEUE_BYTES
        wait.
        """
        self._raise_failure()
        size = _size(changes)
        with self._condition:
            self._waiting_bytes += size
            if self._waiting_bytes > QUEUE_BYTES and not self.is_stalled:
                raise self._too_slow()
        if durable is not None:
            self._is_awaited = True
        if not self._recorded:
            self._recorded_s = time.monotonic()
        self._recorded.append(_Record(changes, () if durable is None else (durable,), size))

    def flush(self) -> None:
        """Let the thread write the recorded changes, without waiting for it. If no recorded change
        has a function `durable`, the changes stay unwritten for up to `linger_s` seconds, so that a
        change with such a function can join their batch.
        """
        self._raise_failure()
        lingered_s = time.monotonic() - self._recorded_s
        if self._is_awaited or lingered_s >= self._linger_s or len(self._recorded) >= BATCH_ROWS:
            self._queue_recorded()

    def _queue_recorded(self) -> None:
        if not self._recorded:
            return
        with self._condition:
            self._queue.extend(self._recorded)
            if self.is_stalled and len(self._queue) > MERGED_RECORDS:
                self._merge_waiting()
            self._condition.notify_all()
        self._recorded.clear()
        self._is_awaited = False

    def deliver(self) -> None:
        """Call the function `durable` of every written record, in the order of recording."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._readable, 4096):
                pass
        while self._took:
            self.on_commit(self._took.popleft())
        while self._written:
            self._written.popleft()()
        self._raise_failure()

    def drain(self) -> None:
        """Wait until all recorded changes are written, and call their functions `durable`.

        Only `close` and tests need this. Raises StorageFullError when there is no room. The changes
        that are then unwritten were never confirmed.
        """
        self._raise_failure()
        self._queue_recorded()
        with self._condition:
            self._condition.wait_for(
                lambda: self._failure or self.is_stalled or not (self._queue or self._is_writing)
            )
        self.deliver()
        if self.is_stalled:
            raise StorageFullError(self.shortage)

    def close(self) -> None:
        """Write the recorded changes, deliver, and close the store. Raises the journal's failure,
        if any, and the errors of `drain`.
        """
        try:
            self.drain()
        finally:
            with self._condition:
                self._is_closing = True
                self._condition.notify_all()
            self._thread.join()
            self._storage.close()
            for fd in (self._readable, self._signal):
                os.close(fd)

    def _run(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._queue or self._is_closing, LOOK_S)
                if self._is_closing:
                    return
                records = self._take() if self._queue else []
                self._is_writing = bool(records)
            failure = self._look()
            if failure is None and not records:
                continue
            if failure is None:
                began_s = time.monotonic()
                failure = self._write_until_there_is_room(records)
                self._took.append(time.monotonic() - began_s)
            with self._condition:
                self._is_writing = self.is_stalled = False
                self._failure = failure
                self._waiting_bytes -= sum(record.bytes for record in records)
                if failure is None:
                    self._written.extend(one for record in records for one in record.durables)
                self._condition.notify_all()
            with contextlib.suppress(BlockingIOError):
                os.write(self._signal, b"\0")
            if failure is not None:
                return

    def _take(self) -> list[_Record]:
        """Remove the records of the next batch from the queue, and return them; there is at least
        one.
        """
        records = [self._queue.popleft()]
        rows, size = len(records[0].changes), records[0].bytes
        while self._queue:
            rows += len(self._queue[0].changes)
            size += self._queue[0].bytes
            if rows > BATCH_ROWS or size > BATCH_BYTES:
                break
            records.append(self._queue.popleft())
        return records

    def _write_until_there_is_room(self, records: list[_Record]) -> BaseException | None:
        """Write one batch, and try again as long as there is no room. Each try writes the same
        batch, because a store may already have a part of it, or have counted it.
        """
        batch = _merged(records)
        while True:
            try:
                self._storage.apply(batch)
            except StorageFullError as error:
                with self._condition:
                    self.shortage, self.is_stalled = str(error), True
                    self._condition.notify_all()
                    if self._condition.wait_for(lambda: self._is_closing, LOOK_S):
                        return error
            except BaseException as error:
                # Any error must end the head, and not only this thread.
                return error
            else:
                return None

    def _look(self) -> BaseException | None:
        now_s = time.monotonic()
        if now_s - self._looked_s >= LOOK_S:
            self._looked_s = now_s
            try:
                self.shortage = self._storage.shortage()
            except BaseException as error:
                # Any error must end the head, and not only this thread.
                return error
        return None

    def _merge_waiting(self) -> None:
        changes = _merged(self._queue)
        durables = tuple(one for record in self._queue for one in record.durables)
        merged = _Record(changes, durables, _size(changes))
        self._waiting_bytes += merged.bytes - sum(record.bytes for record in self._queue)
        self._queue.clear()
        self._queue.append(merged)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _too_slow(self) -> StorageError:
        return StorageError(
            f"more than {QUEUE_BYTES} bytes wait to be written to {self._storage!r}: it is slower "
            "than the cluster changes. Give the head a faster disk or server."
        )


def _size(changes: Batch) -> int:
    return sum(_ROW_BYTES + len(key) + len(value or b"") for (_, key), value in changes.items())


def _merged(records: Iterable[_Record]) -> Batch:
    merged: dict[Row, bytes | None] = {}
    for record in records:
        merged.update(record.changes)
    return merged
