"""The journal acknowledges changes after they are written, in order, and never makes the head's
loop wait.
"""

from __future__ import annotations

import select
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.effort import examples

from phalanx.storage import journal as module
from phalanx.storage.errors import StaleEpochError, StorageError, StorageFullError
from phalanx.storage.journal import Journal
from phalanx.storage.memory import MemoryDisk, MemoryShard
from phalanx.storage.shard import Batch
from phalanx.storage.storage import Storage

from .conftest import KINDS, Place

LONG_S = 120


class _Gate:
    """A store that writes when the test says so, and records what it was given."""

    def __init__(self) -> None:
        self.began = threading.Semaphore(0)
        self.may_end = threading.Semaphore(0)
        self.batches: list[Batch] = []
        self.error: BaseException | None = None
        self.look_error: BaseException | None = None
        self.is_closed = False

    def apply(self, batch: Batch) -> None:
        self.batches.append(batch)
        self.began.release()
        assert self.may_end.acquire(timeout=LONG_S)
        if self.error is not None:
            raise self.error

    def shortage(self) -> str:
        if self.look_error is not None:
            raise self.look_error
        return ""

    def close(self) -> None:
        self.is_closed = True


def _wait(journal: Journal) -> None:
    assert select.select([journal], [], [], LONG_S)[0]


def _is_readable(journal: Journal) -> bool:
    return bool(select.select([journal], [], [], 0)[0])


def _row(number: int) -> Batch:
    return {("nodes", b"%d" % number): b"%d" % number}


def test_nothing_is_acknowledged_before_it_is_written() -> None:
    store, told = _Gate(), []
    journal = Journal(store)
    journal.record(_row(1), lambda: told.append(1))
    journal.flush()
    assert store.began.acquire(timeout=LONG_S)
    journal.deliver()
    assert told == []
    assert not _is_readable(journal)
    store.may_end.release()
    _wait(journal)
    assert told == []
    journal.deliver()
    assert told == [1]
    assert not _is_readable(journal)
    journal.close()
    assert store.is_closed


def test_what_is_not_flushed_is_not_written() -> None:
    store = _Gate()
    store.may_end.release(2)
    journal = Journal(store, linger_s=0.0)
    journal.record(_row(1))
    assert store.batches == []
    journal.flush()
    journal.flush()
    assert store.began.acquire(timeout=LONG_S)
    journal.record(_row(2))
    journal.close()
    assert store.batches == [_row(1), _row(2)]


def test_what_nobody_waits_for_is_written_with_the_next_change_that_somebody_waits_for() -> None:
    store, told = _Gate(), []
    store.may_end.release()
    journal = Journal(store, linger_s=LONG_S)
    journal.record(_row(1))
    journal.flush()
    journal.record(_row(2), lambda: told.append(2))
    journal.flush()
    _wait(journal)
    journal.deliver()
    assert store.batches == [{**_row(1), **_row(2)}]
    assert told == [2]
    journal.close()


def test_many_changes_that_nobody_waits_for_are_written_at_once() -> None:
    store = _Gate()
    store.may_end.release()
    journal = Journal(store, linger_s=LONG_S)
    for number in range(module.BATCH_ROWS):
        journal.record(_row(number))
    journal.flush()
    assert store.began.acquire(timeout=LONG_S)
    journal.close()
    assert len(store.batches) == 1


def test_what_gathers_during_a_write_is_written_together_once() -> None:
    store, told = _Gate(), []
    journal = Journal(store)
    journal.record(_row(0), lambda: told.append(0))
    journal.flush()
    assert store.began.acquire(timeout=LONG_S)
    for number in range(1, 200):
        journal.record(
            {("nodes", b"same"): b"%d" % number, ("nodes", b"%d" % number): None},
            partial(told.append, number),
        )
        journal.flush()
    store.may_end.release(2)
    journal.drain()
    assert told == list(range(200))
    assert len(store.batches) == 2
    assert store.batches[1]["nodes", b"same"] == b"199"
    assert len(store.batches[1]) == 200
    journal.close()


@pytest.mark.parametrize(
    ("rows", "size", "count", "batches"),
    [
        (10, 1, 7, [1, 6]),
        (module.BATCH_ROWS // 2, 1, 7, [1, 2, 2, 2]),
        (module.BATCH_ROWS * 2, 1, 3, [1, 1, 1]),
        (1, module.BATCH_BYTES // 2, 4, [1, 1, 1, 1]),
        (1, module.BATCH_BYTES // 3, 4, [1, 2, 1]),
    ],
)
def test_batches_are_bounded_and_records_are_whole(
    rows: int, size: int, count: int, batches: list[int]
) -> None:
    store = _Gate()
    journal = Journal(store, linger_s=0.0)
    store.may_end.release(count)
    value = b"x" * size
    records = [
        {("nodes", b"%d-%d" % (number, row)): value for row in range(rows)}
        for number in range(count)
    ]
    journal.record(records[0])
    journal.flush()
    assert store.began.acquire(timeout=LONG_S)
    journal.drain()
    for record in records[1:]:
        journal.record(record)
    journal.drain()
    assert [len(batch) // rows for batch in store.batches] == batches
    journal.close()


@pytest.mark.parametrize("error", [StaleEpochError("another head"), ZeroDivisionError()])
def test_after_a_failure_nothing_is_written_or_acknowledged(error: BaseException) -> None:
    store, told = _Gate(), []
    journal = Journal(store)
    store.may_end.release()
    journal.record(_row(1), lambda: told.append(1))
    journal.flush()
    assert store.began.acquire(timeout=LONG_S)
    _wait(journal)
    store.error = error
    journal.record(_row(2), lambda: told.append(2))
    journal.flush()
    assert store.began.acquire(timeout=LONG_S)
    journal.record(_row(3), lambda: told.append(3))
    journal.deliver()
    journal.flush()
    store.may_end.release()
    _wait(journal)
    calls: list[Callable[[], None]] = [
        journal.deliver,
        journal.flush,
        journal.drain,
        lambda: journal.record(_row(4)),
        journal.close,
    ]
    for call in calls:
        with pytest.raises(type(error)):
            call()
    assert told == [1]
    assert store.batches == [_row(1), _row(2)]
    assert store.is_closed


def test_an_error_of_a_look_at_the_store_ends_the_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.01)
    store = _Gate()
    journal = Journal(store)
    store.look_error = PermissionError("no look")
    _wait(journal)
    calls: list[Callable[[], None]] = [
        journal.deliver,
        journal.flush,
        lambda: journal.record(_row(1)),
        journal.close,
    ]
    for call in calls:
        with pytest.raises(PermissionError):
            call()
    assert store.batches == []
    assert store.is_closed


def test_what_was_written_before_a_failure_is_still_acknowledged() -> None:
    store, told = _Gate(), []
    journal = Journal(store)
    journal.record(_row(1), lambda: told.append(1))
    journal.flush()
    assert store.began.acquire(timeout=LONG_S)
    journal.record(_row(2), lambda: told.append(2))
    journal.flush()
    store.may_end.release()
    assert store.began.acquire(timeout=LONG_S)
    store.error = StaleEpochError("another head")
    store.may_end.release()
    journal._thread.join()
    with pytest.raises(StaleEpochError):
        journal.deliver()
    assert told == [1]
    with pytest.raises(StaleEpochError):
        journal.close()


def test_a_callback_may_record() -> None:
    disk, told = MemoryDisk(), []
    journal = Journal(Storage([MemoryShard(disk)]))

    def again() -> None:
        journal.record(_row(2), lambda: told.append(2))

    journal.record(_row(1), again)
    journal.drain()
    assert told == []
    journal.drain()
    assert told == [2]
    journal.close()
    assert disk.tables == {"nodes": {b"1": b"1", b"2": b"2"}}


class _Full(MemoryShard):
    """A shard whose disk has free space when a test says so. It counts how often it is asked."""

    def __init__(self, disk: MemoryDisk) -> None:
        super().__init__(disk)
        self.asked = threading.Semaphore(0)
        self.batches: list[Batch] = []

    def apply(self, batch: Batch) -> None:
        self.batches.append(batch)
        self.asked.release()
        super().apply(batch)


def test_a_full_store_is_waited_for_and_the_same_batch_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.01)
    monkeypatch.setattr(module, "QUEUE_BYTES", 10_000)
    monkeypatch.setattr(module, "MERGED_RECORDS", 10)
    disk, told = MemoryDisk(), []
    shard = _Full(disk)
    journal = Journal(Storage([shard]))
    journal.record(_row(0), lambda: told.append(0))
    journal.drain()
    assert (journal.shortage, journal.is_stalled) == ("", False)
    disk.is_full = True
    shard.batches.clear()
    journal.record(_row(1), lambda: told.append(1))
    journal.flush()
    for _ in range(3):
        assert shard.asked.acquire(timeout=LONG_S)
    for number in range(2, 300):
        row = {("nodes", b"same"): b"x" * 2_000, ("nodes", b"%d" % (number % 3)): b"%d" % number}
        journal.record(row, partial(told.append, number))
        journal.flush()
        journal.deliver()
    assert (journal.shortage, journal.is_stalled) == ("the simulated disk is full", True)
    assert told == [0]
    with pytest.raises(StorageFullError):
        journal.drain()
    assert all(batch == _row(1) for batch in shard.batches)
    assert journal._waiting_bytes < 50_000, "it grows with the rows, not with the time"
    disk.is_full = False
    while journal.is_stalled:
        assert shard.asked.acquire(timeout=LONG_S)
    journal.drain()
    assert told == list(range(300))
    assert disk.tables["nodes"][b"same"] == b"x" * 2_000
    assert disk.tables["nodes"][b"2"] == b"299"
    journal.close()


def test_a_head_that_ends_while_its_store_is_full_does_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk, told = MemoryDisk(), []
    shard = _Full(disk)
    journal = Journal(Storage([shard]))
    disk.is_full = True
    journal.record(_row(1), lambda: told.append(1))
    with pytest.raises(StorageFullError):
        journal.close()
    assert told == []


def test_too_much_waiting_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUEUE_BYTES", 10_000)
    store = _Gate()
    store.may_end.release(9)
    journal = Journal(store)
    for number in range(4):
        journal.record({("nodes", b"%d" % number): b"x" * 2_000})
    with pytest.raises(StorageError, match="more than 10000 bytes wait to be written"):
        journal.record({("nodes", b"n"): b"x" * 2_000})
    journal.drain()
    journal.record({("nodes", b"n"): b"x" * 2_000})
    journal.close()


@pytest.mark.parametrize("place", KINDS, indirect=True)
@settings(max_examples=examples(10), suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(
        st.sampled_from(["flush", "deliver", "drain"])
        | st.dictionaries(
            st.tuples(st.sampled_from(["nodes", "objects"]), st.binary(max_size=2)),
            st.none() | st.binary(max_size=9),
            max_size=5,
        ),
        max_size=30,
    )
)
def test_each_store_holds_at_least_what_was_acknowledged(place: Place, steps: list[Any]) -> None:
    storage = place.open()
    for table in ("nodes", "objects"):
        storage.apply({(table, key): None for key, _ in storage.load(table)})
    journal = Journal(storage)
    recorded: list[Batch] = []
    told: list[int] = []
    for step in steps:
        if isinstance(step, dict):
            number = len(recorded)
            recorded.append(step)
            journal.record(step, partial(told.append, number))
        else:
            getattr(journal, step)()
            assert told == list(range(len(told)))
    journal.close()
    assert told == list(range(len(recorded)))
    merged: dict[tuple[str, bytes], bytes | None] = {}
    for changes in recorded:
        merged.update(changes)
    again = place.open()
    found = {
        (table, key): value for table in ("nodes", "objects") for key, value in again.load(table)
    }
    again.close()
    assert found == {row: value for row, value in merged.items() if value is not None}
