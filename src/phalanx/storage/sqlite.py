"""A store in one SQLite file with a write-ahead log, for a head on one machine."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sqlite3
import zlib
from collections.abc import Iterator
from urllib.parse import quote

from phalanx.storage.errors import (
    StorageCorruptError,
    StorageError,
    StorageFullError,
    StorageInUseError,
)
from phalanx.storage.memory import stale
from phalanx.storage.private_files import FileLock, prepare_file
from phalanx.storage.removed_files import DatabaseFiles, is_at
from phalanx.storage.shard import Batch, Head
from phalanx.storage.transactions import transaction

_APPLICATION = 0x50484C58
_VERSION = 2
_BUSY_S = 5.0
"""Seconds for which a call waits for a file that another program has locked."""
FLOOR_BYTES = 64 * 2**20
"""Free bytes of the file's disk below which the store asks the head to take no new work."""
RESERVE_BYTES = 16 * 2**20
"""Bytes of the disk that are reserved for the log in advance, so that changes of running work can
still be written when other programs have filled the disk.
"""
_FULL_BYTES = 2**20
"""Free bytes of a disk below which an I/O error counts as a full disk.

SQLite itself reports a full disk when a write fails, but not when a flush fails or a quota is used
up.
"""
MARK = ".mark"
"""The ending of the name of the file with the store's mark, which is next to the store."""
_KEEP_SIZE = 1
"""The mode of fallocate that gives blocks to a file without changing its length."""

# The table has row ids: WITHOUT ROWID, each comparison of keys would read the whole row, which may
# have megabytes.
_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), epoch INTEGER NOT NULL, layout TEXT);
INSERT INTO head VALUES (1, 0, '');
CREATE TABLE stored (
    name TEXT NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL, PRIMARY KEY (name, key)
);
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = 1;
COMMIT;
"""
# A row's checksum is NULL if format 1 wrote it. The log has its own checksums, but the file has
# none.
_FROM_1_TO_2 = f"""
BEGIN IMMEDIATE;
ALTER TABLE head ADD COLUMN cluster TEXT NOT NULL DEFAULT '';
ALTER TABLE head ADD COLUMN sequence INTEGER NOT NULL DEFAULT 0;
ALTER TABLE stored ADD COLUMN checksum INTEGER;
PRAGMA user_version = {_VERSION};
COMMIT;
"""


class SqliteShard:
    """A Shard in the file at `path`. A missing file is created, readable only by its owner.

    Each batch is one transaction that reaches the disk before `apply` returns (synchronous=FULL).
    With synchronous=NORMAL, a crash of the machine could lose batches that were already confirmed.
    """

    def __init__(self, path: str) -> None:
        """Open the file.

        Raises StorageInUseError, StorageCorruptError, or a StorageError that says what is wrong.
        Nothing is changed before `claim`. If a file with a damaged log were changed and closed,
        SQLite would merge the readable part of the log into the file, and the rest of the log could
        no longer be repaired.
        """
        self.path = prepare_file(path, beside=("-wal", "-shm", ".lock"))
        self._epoch = 0
        self._opened: sqlite3.Connection | None = None
        self._lock = self._new_lock()
        self._files = DatabaseFiles(self.path)
        try:
            self._found = self._look() if os.path.getsize(self.path) else Head()
        except BaseException:
            self._lock.close()
            raise

    def __repr__(self) -> str:
        return f"sqlite:{self.path}"

    @property
    def _db(self) -> sqlite3.Connection:
        assert self._opened is not None, "a shard is claimed before it is read or written"
        return self._opened

    def head(self) -> Head:
        """Return the record of the last writer; after `claim`, of the previous writer."""
        return self._found

    def claim(self, head: Head) -> None:
        with self._clear_errors():
            self._open()
        with self._clear_errors(), transaction(self._db):
            changed = self._db.execute(
                "UPDATE head SET epoch = ?, layout = ?, cluster = ?, sequence = 0 WHERE epoch < ?",
                (head.epoch, head.layout, head.cluster, head.epoch),
            )
            if changed.rowcount == 0:
                raise stale(self, head.epoch, self._stored_epoch())
        self._epoch = head.epoch

    def load(self, table: str, prefix: bytes = b"") -> list[tuple[bytes, bytes]]:
        query = "SELECT key, value, checksum FROM stored WHERE name = ? AND key >= ?"
        parameters: list[str | bytes] = [table, prefix]
        end = _after(prefix)
        if end is not None:
            query += " AND key < ?"
            parameters.append(end)
        with self._clear_errors():
            rows = self._db.execute(f"{query} ORDER BY key", parameters).fetchall()
        return [(key, self._checked(table, key, value, sum_)) for key, value, sum_ in rows]

    def get(self, table: str, key: bytes) -> bytes | None:
        query = "SELECT value, checksum FROM stored WHERE name = ? AND key = ?"
        with self._clear_errors():
            found = self._db.execute(query, (table, key)).fetchone()
        return self._checked(table, key, *found) if found else None

    def apply(self, batch: Batch) -> None:
        if not batch:
            with self._clear_errors():
                self._check_epoch()
            return
        puts = [
            (*row, value, _checksum(row[1], value))
            for row, value in batch.items()
            if value is not None
        ]
        deletes = [row for row, value in batch.items() if value is None]
        with self._clear_errors(), transaction(self._db):
            counted = self._db.execute(
                "UPDATE head SET sequence = sequence + 1 WHERE epoch = ?", (self._epoch,)
            )
            if counted.rowcount == 0:
                self._check_epoch()
            self._db.executemany(
                "INSERT INTO stored VALUES (?, ?, ?, ?) ON CONFLICT (name, key)"
                " DO UPDATE SET value = excluded.value, checksum = excluded.checksum",
                puts,
            )
            if deletes:
                self._db.executemany("DELETE FROM stored WHERE name = ? AND key = ?", deletes)

    def shortage(self) -> str:
        """Return why there is too little room; if there is enough, reserve the log's bytes
        again. Files that were removed are written again.
        """
        try:
            self._keep_files()
        except (OSError, sqlite3.Error, StorageError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            return f"{self.path} was removed, and cannot be written again ({reason})"
        try:
            free = self._free_bytes()
        except OSError as error:
            return f"the disk of {self.path} cannot be asked for its room ({error.strerror})"
        if free >= FLOOR_BYTES + RESERVE_BYTES:
            _reserve(self.path + "-wal")
        if free >= FLOOR_BYTES:
            return ""
        return f"the disk of {self.path} has {free / 2**20:.0f} MiB left"

    def _keep_files(self) -> None:
        """Write the files again if they were removed. Raises OSError, sqlite3.Error and
        StorageError if that is impossible.
        """
        if self._opened is None or self._files.are_there():
            return
        self._files.write_again(self._db)
        if not is_at(self._lock.fd, self.path + ".lock"):
            removed, self._lock = self._lock, self._new_lock()
            removed.close()
        self._files.close_removed(self._db)
        self._open()
        self._files.are_there()

    def _new_lock(self) -> FileLock:
        return FileLock(self.path + ".lock", guards=self.path)

    def _free_bytes(self) -> int:
        found = os.statvfs(os.path.dirname(self.path))
        return found.f_bavail * found.f_frsize

    def _is_full(self) -> bool:
        with contextlib.suppress(OSError):
            return self._free_bytes() < _FULL_BYTES
        return False

    def close(self) -> None:
        """Close the file, so that the next process can open it. Closing is allowed after an error,
        too.
        """
        if self._opened is not None:
            with contextlib.suppress(sqlite3.Error):
                self._opened.close()
        self._lock.close()

    def _look(self) -> Head:
        """Check the file without changing it. Returns the record of its latest writer, with the
        number of that writer's last batch.
        """
        place = f"file:{quote(self.path)}?mode=ro"
        with (
            self._clear_errors(),
            contextlib.closing(sqlite3.connect(place, timeout=_BUSY_S, uri=True)) as db,
        ):
            application = db.execute("PRAGMA application_id").fetchone()[0]
            tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if application == 0 and tables == 0:
                return Head()
            if application != _APPLICATION:
                raise StorageError(
                    f"{self.path} is an SQLite file of another program. Name a file that is not "
                    "there yet."
                )
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if not 1 <= version <= _VERSION:
                raise StorageError(
                    f"{self.path} has format {version}, and this version of Phalanx reads format "
                    f"{_VERSION}. Open it with the version that wrote it."
                )
            answer = db.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if answer != "ok":
                raise self._corrupt(answer.splitlines()[-1])
            columns = "epoch, layout" if version == 1 else "epoch, layout, cluster, sequence"
            return Head(*db.execute(f"SELECT {columns} FROM head").fetchone())

    def _open(self) -> None:
        # The journal's thread writes, although another thread has opened and loaded the store.
        self._opened = db = sqlite3.connect(
            self.path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
        )
        mode = db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        if mode != "wal":
            raise StorageError(
                f"{self.path}: no write-ahead log can be kept there (SQLite chose {mode!r}). "
                "Name a file on a local disk."
            )
        db.execute("PRAGMA synchronous = FULL")
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            db.executescript(_SCHEMA)
        if version < _VERSION:
            db.executescript(_FROM_1_TO_2)

    def _checked(self, table: str, key: bytes, value: bytes, checksum: int | None) -> bytes:
        if checksum is not None and checksum != _checksum(key, value):
            raise self._corrupt(f"the row {key.hex()} of the table {table} is not what was written")
        return value

    def _check_epoch(self) -> None:
        found = self._stored_epoch()
        if found != self._epoch:
            raise stale(self, self._epoch, found)

    def _stored_epoch(self) -> int:
        epoch: int = self._db.execute("SELECT epoch FROM head").fetchone()[0]
        return epoch

    @contextlib.contextmanager
    def _clear_errors(self) -> Iterator[None]:
        """Turn SQLite's errors into StorageErrors."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            text = str(error)
            if "is full" in text or ("I/O" in text and self._is_full()):
                raise StorageFullError(
                    f"{self.path}: the disk is full. Make room on that file system."
                ) from error
            if "is locked" in text:
                raise StorageInUseError(
                    f"{self.path} has been locked by another program for {_BUSY_S:.0f} s. End it."
                ) from error
            if "malformed" in text or "not a database" in text:
                raise self._corrupt(text) from error
            raise StorageError(
                f"{self.path} cannot be read or written ({text}). Check that disk, then "
                "start the head again."
            ) from error

    def _corrupt(self, reason: str) -> StorageCorruptError:
        return StorageCorruptError(
            f"{self.path} is damaged ({reason}). Put a copy of it back, or move it away "
            "with its -wal file and start with an empty store."
        )


def exists(path: str) -> bool:
    """Return whether there is a store in this file, or a remnant of a store that was not completely
    deleted.
    """
    return os.path.lexists(path) or os.path.lexists(path + MARK)


def delete(path: str) -> bool:
    """Delete the store in this file. Returns whether there was a store. Raises
    StorageInUseError.
    """
    if not exists(path):
        return False
    lock = FileLock(path + ".lock", guards=path)
    try:
        for ending in ("-wal", "-shm", "", MARK, ".lock"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path + ending)
    finally:
        lock.close()
    return True


def _checksum(key: bytes, value: bytes) -> int:
    return zlib.crc32(value, zlib.crc32(key))


def _reserve(log: str) -> None:
    """Reserve RESERVE_BYTES of disk blocks for a log, if the disk supports that."""
    try:
        fd = os.open(log, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return  # nothing was written yet
    try:
        if os.fstat(fd).st_blocks * 512 < RESERVE_BYTES:
            allocate = ctypes.CDLL(None).fallocate64
            allocate(fd, _KEEP_SIZE, ctypes.c_int64(0), ctypes.c_int64(RESERVE_BYTES))
    finally:
        os.close(fd)


def _after(prefix: bytes) -> bytes | None:
    """Return the least key above all keys that begin with `prefix`; None if no such key exists."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
