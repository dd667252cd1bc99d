"""Keeps the scheduler's tables in Ray's internal key-value store, as a Shard of `phalanx.storage`.

A batch of changes is one value, an entry of a log, so it is written completely or not at all. From
time to time all tables are written as one image, and the log entries that the image covers are
deleted. Each epoch has its own image and log. So no reader sees an entry that an earlier writer
appends after a later writer has begun. The writer also keeps its tables in memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import msgspec

from phalanx.storage.errors import StorageUnreachableError
from phalanx.storage.memory import stale
from phalanx.storage.shard import Batch, Head

MIN_LOG_BYTES = 1 << 16
LOG_PART = 4
"""A new image replaces the log when the log exceeds MIN_LOG_BYTES and 1/LOG_PART of the tables'
bytes. Logs are kept short because a reader requests the entries one by one.
"""
_LOAD_TRIES = 5

Tables = dict[str, dict[bytes, bytes]]


class KeyValues(Protocol):
    """The key-value store that holds the shard. All methods raise Exception if the store cannot be
    reached.
    """

    def put_new(self, key: bytes, value: bytes) -> bool:
        """Store a value unless the key has one. Returns whether the value was stored."""
        ...

    def put(self, key: bytes, value: bytes) -> None:
        """Store a value in place of any earlier one."""
        ...

    def get(self, key: bytes) -> bytes | None:
        """Return a value; None if the key has no value."""
        ...

    def keys(self, prefix: bytes) -> list[bytes]:
        """Return all keys with this prefix."""
        ...

    def delete_all(self, prefix: bytes) -> None:
        """Delete every value whose key has this prefix."""
        ...


class _Image(NamedTuple):
    """All tables at one moment of an epoch. `entries`: the number of log entries of the epoch whose
    changes the tables contain. A reader applies the later entries to the tables.
    """

    entries: int
    tables: Tables


_encode = msgspec.msgpack.Encoder().encode
_image_of = msgspec.msgpack.Decoder(_Image).decode
_changes_of = msgspec.msgpack.Decoder(list[tuple[str, bytes, bytes | None]]).decode
_head_of = msgspec.msgpack.Decoder(Head).decode


class KvShard:
    """A Shard in a key-value store. `name` is for display."""

    def __init__(self, values: KeyValues, name: str = "kv") -> None:
        self._values = values
        self._name = name
        self._epoch = 0
        self._entries = 0
        self._log_bytes = 0
        self._tables: Tables = {}
        self._table_bytes = 0

    def __repr__(self) -> str:
        return self._name

    def head(self) -> Head:
        """Return the record of the latest claimed epoch; an empty record before the first epoch."""
        epochs = self._numbers(b"epoch/")
        if not epochs:
            return Head()
        found = self._get(_epoch_key(epochs[-1]))
        return Head() if found is None else _head_of(found)

    def claim(self, head: Head) -> None:
        """Claim the epoch of `head`, and load the tables. Raises StaleEpochError unless the epoch
        is newer than all others.
        """
        newest = self.head().epoch
        if head.epoch <= newest or not self._put_new(_epoch_key(head.epoch), _encode(head)):
            raise stale(self, head.epoch, self.head().epoch)
        self._epoch = head.epoch
        self._tables = self._read()
        self._table_bytes = _size(self._tables)
        self._write_image()
        self._sweep()

    def load(self, table: str, prefix: bytes = b"") -> list[tuple[bytes, bytes]]:
        """Return the rows of a table whose keys begin with this prefix."""
        rows = self._tables.get(table, {})
        return sorted(row for row in rows.items() if row[0].startswith(prefix))

    def get(self, table: str, key: bytes) -> bytes | None:
        return self._tables.get(table, {}).get(key)

    def apply(self, batch: Batch) -> None:
        """Write a batch as one entry of the log."""
        entry = _encode([(table, key, value) for (table, key), value in batch.items()])
        # The epoch is checked after the entry is written: a writer that claims the next epoch
        # before this check reads the entry.
        is_new = not batch or self._put_new(_entry_key(self._epoch, self._entries), entry)
        if not is_new or self._get(_epoch_key(self._epoch + 1)) is not None:
            raise stale(self, self._epoch, self.head().epoch)
        if not batch:
            return
        self._entries += 1
        self._log_bytes += len(entry)
        for (table, key), value in batch.items():
            rows = self._tables.setdefault(table, {})
            before = rows.pop(key, None)
            self._table_bytes -= len(before) if before is not None else 0
            if value is not None:
                rows[key] = value
                self._table_bytes += len(value)
        if self._log_bytes > max(MIN_LOG_BYTES, self._table_bytes // LOG_PART):
            self._fold()

    def shortage(self) -> str:
        """Return an empty text: Ray's store reports no limit."""
        return ""

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    # ---- images and logs ---------------------------------------------------------------------

    def _read(self) -> Tables:
        """Return all tables as the latest earlier epoch with an image has left them."""
        for _ in range(_LOAD_TRIES):
            epochs = [epoch for epoch in self._numbers(b"image/") if epoch < self._epoch]
            if not epochs:
                return {}
            stored = self._get(_image_key(epochs[-1]))
            if stored is None:
                continue
            image = _image_of(stored)
            at, tables = image.entries, image.tables
            while (entry := self._get(_entry_key(epochs[-1], at))) is not None:
                for table, key, value in _changes_of(entry):
                    rows = tables.setdefault(table, {})
                    if value is None:
                        rows.pop(key, None)
                    else:
                        rows[key] = value
                at += 1
            if self._get(_image_key(epochs[-1])) == stored:
                # otherwise its writer was folding the log, and entries disappeared during the read
                return tables
        raise StorageUnreachableError(f"{self} changes faster than it can be read.")

    def _write_image(self) -> None:
        image = _encode(_Image(self._entries, self._tables))
        self._call(self._values.put, _image_key(self._epoch), image)
        self._log_bytes = 0

    def _fold(self) -> None:
        self._write_image()
        self._call(self._values.delete_all, _log_key(self._epoch))

    def _sweep(self) -> None:
        """Delete the images and logs of earlier epochs. The numbers of the epochs are kept, so that
        a late writer sees that its epoch is over.
        """
        for kind in (b"image/", b"log/"):
            keys = self._call(self._values.keys, kind)
            for epoch in {int(key[len(kind) : len(kind) + _DIGITS]) for key in keys}:
                if epoch < self._epoch:
                    self._call(self._values.delete_all, kind + _digits(epoch))

    def _numbers(self, prefix: bytes) -> list[int]:
        return sorted(int(key[len(prefix) :]) for key in self._call(self._values.keys, prefix))

    # ---- the store underneath ----------------------------------------------------------------

    def _get(self, key: bytes) -> bytes | None:
        found: bytes | None = self._call(self._values.get, key)
        return found

    def _put_new(self, key: bytes, value: bytes) -> bool:
        is_new: bool = self._call(self._values.put_new, key, value)
        return is_new

    def _call(self, call: Any, *args: Any) -> Any:
        try:
            return call(*args)
        except Exception as error:  # whatever the other program's client raises
            raise StorageUnreachableError(
                f"{self} does not answer ({error}). It returns with Ray's head."
            ) from error


_DIGITS = 12


def _digits(number: int) -> bytes:
    return b"%0*d" % (_DIGITS, number)


def _epoch_key(epoch: int) -> bytes:
    return b"epoch/" + _digits(epoch)


def _image_key(epoch: int) -> bytes:
    return b"image/" + _digits(epoch)


def _log_key(epoch: int) -> bytes:
    return b"log/" + _digits(epoch) + b"/"


def _entry_key(epoch: int, number: int) -> bytes:
    return _log_key(epoch) + _digits(number)


def _size(tables: Tables) -> int:
    return sum(len(value) for rows in tables.values() for value in rows.values())
