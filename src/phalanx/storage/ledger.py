"""The history of jobs, in its own SQLite file: ended attempts and steps, and sums for each hour.

The transaction that stores an attempt also adds it to the sums. An attempt whose key is already
stored is not added again. So the sums stay correct although attempts are deleted earlier than sums
(see HistoryLimits).
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from phalanx.model.attempts import Attempt, AttemptRow, Used, UsedRow
from phalanx.model.steps import LedgerRow, Step, StepRow
from phalanx.observe.accounting.questions import (
    AttemptPage,
    AttemptQuery,
    UsageQuery,
    UsageRow,
)
from phalanx.observe.accounting.sums import HOUR_S, HourSum, attempt_sums, usage_sums
from phalanx.storage.private_files import prepare_file
from phalanx.storage.removed_files import DatabaseFiles
from phalanx.storage.transactions import transaction

ENDING = ".history"
"""The ending of the name of the history's file, if the store is a file."""
_APPLICATION = 0x50484C48
_DAY_S = 86_400
FORGET_AT_ONCE = 5_000
"""The largest number of attempts that are deleted in one transaction, so that no write takes
long.
"""
_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE names (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE attempts (
    id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, ended REAL NOT NULL, user INTEGER NOT NULL,
    queue INTEGER NOT NULL, state INTEGER NOT NULL, job TEXT NOT NULL, body BLOB NOT NULL,
    used BLOB
);
CREATE INDEX attempts_ended ON attempts (ended);
CREATE INDEX attempts_user ON attempts (user, ended);
CREATE INDEX attempts_queue ON attempts (queue, ended);
CREATE INDEX attempts_job ON attempts (job, ended);
CREATE TABLE hours (
    hour INTEGER NOT NULL, user INTEGER NOT NULL, queue INTEGER NOT NULL, sum BLOB NOT NULL,
    PRIMARY KEY (hour, user, queue)
) WITHOUT ROWID;
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = 1;
COMMIT;
"""
_STEPS = """
CREATE TABLE IF NOT EXISTS steps (
    id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, ended REAL NOT NULL, user INTEGER NOT NULL,
    queue INTEGER NOT NULL, state INTEGER NOT NULL, job TEXT NOT NULL, body BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS steps_ended ON steps (ended);
CREATE INDEX IF NOT EXISTS steps_user ON steps (user, ended);
CREATE INDEX IF NOT EXISTS steps_queue ON steps (queue, ended);
CREATE INDEX IF NOT EXISTS steps_job ON steps (job, ended);
"""
"""The table of steps. This table was added later as a separate table, so that earlier versions can
still use the file.
"""
_TABLES = ("attempts", "steps")
_encode = msgspec.msgpack.Encoder().encode
_attempt = msgspec.msgpack.Decoder(Attempt).decode
_used = msgspec.msgpack.Decoder(Used).decode
_step = msgspec.msgpack.Decoder(Step).decode
_sum = msgspec.msgpack.Decoder(HourSum).decode


class HistoryLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of age and number in the history. Raises ValueError for limits below 1."""

    days: float = 366
    """Days after which ended attempts and steps are deleted."""
    records: int = 5_000_000
    """The largest number of attempts that are kept. The same limit applies to steps. The oldest are
    deleted first.
    """
    sum_days: float = 731
    """Days after which the sums of an hour are deleted."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if not getattr(self, name) >= 1:
                raise ValueError(f"history {name} must be 1 or more, not {getattr(self, name)}")


class SqliteLedger:
    """A history in one file, for one thread at a time."""

    def __init__(self, path: str, limits: HistoryLimits | None = None) -> None:
        """Open the history in the file `path`.

        A missing file is created, readable only by its owner. Raises StorageError for a file that
        other users can read, and sqlite3.Error for a file that is no history.
        """
        self.path = prepare_file(path, beside=("-wal", "-shm"))
        self._limits = limits or HistoryLimits()
        self._files = DatabaseFiles(self.path)
        self._open()

    def _open(self) -> None:
        self._db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        try:
            self._prepare()
            self._files.are_there()
        except BaseException:
            self._db.close()
            raise

    def _prepare(self) -> None:
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        application = self._db.execute("PRAGMA application_id").fetchone()[0]
        if version and (application, version) != (_APPLICATION, 1):
            raise sqlite3.DatabaseError(f"{self.path} is not a history that this version can read")
        self._db.execute("PRAGMA journal_mode = WAL")
        # Confirmed records are deleted from the store, so they must survive a power cut here.
        self._db.execute("PRAGMA synchronous = FULL")
        if version == 0:
            self._db.executescript(_SCHEMA)
        self._db.executescript(_STEPS)
        self._names: dict[str, int] = {}
        self._counts = {
            table: int(self._db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
            for table in _TABLES
        }

    def close(self) -> None:
        """Close the file. A process that ends without this call loses nothing."""
        self._db.close()

    # ---- keeping -----------------------------------------------------------------------------

    def add(self, rows: Iterable[LedgerRow], now: float) -> None:
        """Store these rows durably, and delete the oldest rows above the limits. If the history's
        files were removed, they are written again.

        Raises OSError, sqlite3.Error and StorageError.
        """
        if not self._files.are_there():
            self._files.write_again(self._db)
            self._files.close_removed(self._db)
            self._open()
        sums: dict[tuple[int, int, int], HourSum] = {}
        counts, known = dict(self._counts), dict(self._names)
        try:
            with transaction(self._db):
                for row in rows:
                    if isinstance(row, UsedRow):
                        self._add_used(row, sums)
                    elif isinstance(row, StepRow):
                        counts["steps"] += self._add_step(row)
                    else:
                        counts["attempts"] += self._add_attempt(row, sums)
                self._add_sums(sums)
                for table in _TABLES:
                    counts[table] -= self._forget(table, now, counts[table])
                last = (now - self._limits.sum_days * _DAY_S) // HOUR_S
                self._db.execute("DELETE FROM hours WHERE hour < ?", (last,))
        except BaseException:
            self._names = known  # names that were added in this transaction do not exist then
            raise
        self._counts = counts

    def _add_attempt(self, row: AttemptRow, sums: dict[tuple[int, int, int], HourSum]) -> int:
        one = row.attempt
        user, queue = self._id_of(one.user), self._id_of(one.queue)
        used = None if one.used is None else _encode(one.used)
        body = _encode(msgspec.structs.replace(one, used=None))
        done = self._db.execute(
            "INSERT INTO attempts (key, ended, user, queue, state, job, body, used)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING",
            (
                row.key, one.ended, user, queue, self._id_of(one.state),
                f"{one.namespace}/{one.job}", body, used,
            ),
        )  # fmt: skip
        if done.rowcount:
            _add_to_sums(sums, user, queue, attempt_sums(one))
        return done.rowcount

    def _add_step(self, row: StepRow) -> int:
        one = row.step
        ids = [self._id_of(name) for name in (one.user, one.queue, one.state)]
        return self._db.execute(
            "INSERT INTO steps (key, ended, user, queue, state, job, body)"
            " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING",
            (row.key, one.ended, *ids, f"{one.namespace}/{one.job}", _encode(one)),
        ).rowcount

    def _add_used(self, row: UsedRow, sums: dict[tuple[int, int, int], HourSum]) -> None:
        found = self._db.execute(
            "SELECT user, queue, body FROM attempts WHERE key = ? AND used IS NULL", (row.key,)
        ).fetchone()
        if found is not None:
            user, queue, body = found
            self._db.execute(
                "UPDATE attempts SET used = ? WHERE key = ?", (_encode(row.used), row.key)
            )
            _add_to_sums(sums, user, queue, usage_sums(_attempt(body), row.used))

    def _add_sums(self, sums: dict[tuple[int, int, int], HourSum]) -> None:
        for key, one in sums.items():
            found = self._db.execute(
                "SELECT sum FROM hours WHERE hour = ? AND user = ? AND queue = ?", key
            ).fetchone()
            if found is not None:
                one.add(_sum(found[0]))
            self._db.execute(
                "INSERT OR REPLACE INTO hours VALUES (?, ?, ?, ?)", (*key, _encode(one))
            )

    def _forget(self, table: str, now: float, count: int) -> int:
        """Delete rows that are older than the limits or too many. Returns how many of the table's
        `count` rows were deleted.
        """
        over = min(max(count - self._limits.records, 0), FORGET_AT_ONCE)
        old = (
            f"DELETE FROM {table} WHERE id IN"
            f" (SELECT id FROM {table} WHERE ended < ? ORDER BY ended LIMIT ?)"
        )
        before = now - self._limits.days * _DAY_S
        gone = self._db.execute(old, (before, FORGET_AT_ONCE)).rowcount
        if over > gone:
            gone += self._db.execute(old, (float("inf"), over - gone)).rowcount
        return gone

    def _id_of(self, name: str) -> int:
        found = self._names.get(name)
        if found is None:
            self._db.execute("INSERT OR IGNORE INTO names (name) VALUES (?)", (name,))
            found = self._known(name)
            assert found is not None
            self._names[name] = found
        return found

    def _known(self, name: str) -> int | None:
        row = self._db.execute("SELECT id FROM names WHERE name = ?", (name,)).fetchone()
        return None if row is None else int(row[0])

    # ---- looking up --------------------------------------------------------------------------

    def attempts(self, query: AttemptQuery) -> AttemptPage:
        """Return the attempts and ended steps that a query selects."""
        rows = self._meant("attempts", "body, used", query) if query.has_attempts else []
        steps = self._meant("steps", "body", query) if query.has_steps else []
        return AttemptPage(
            attempts=[_whole(body, used) for body, used in rows[: query.limit]],
            is_cut=max(len(rows), len(steps)) > query.limit,
            steps=[_step(body) for (body,) in steps[: query.limit]],
        )

    def _meant(self, table: str, columns: str, query: AttemptQuery) -> list[tuple[Any, ...]]:
        """Return the rows that a query selects: at most one more than the query's limit, so that
        the caller sees whether more exist.
        """
        where, values = ["ended >= ?"], [query.since]
        words: list[object] = [*values]
        if query.until is not None:
            where.append("ended < ?")
            words.append(query.until)
        for column, names in (
            ("user", query.users), ("queue", query.queues), ("state", query.states),
        ):  # fmt: skip
            if names:
                where.append(_among(column, self._ids(names), words))
        if query.job:
            where.append("(job = ? OR (job > ? AND job < ?))")
            # a backslash before a letter; [ begins a set
            words += [query.job, f"{query.job}[", f"{query.job}\\"]
        return self._db.execute(
            f"SELECT {columns} FROM {table} {_by(table, query)} WHERE {' AND '.join(where)}"
            " ORDER BY ended DESC LIMIT ?",
            (*words, query.limit + 1),
        ).fetchall()

    def usage(self, query: UsageQuery) -> list[UsageRow]:
        """Return the usage that a query selects, sorted by user, then by queue."""
        where, words = ["hour >= ?"], list[object]([-(-query.since // HOUR_S)])
        if query.until is not None:
            where.append("hour < ?")
            words.append(-(-query.until // HOUR_S))
        for column, names in (("user", query.users), ("queue", query.queues)):
            if names:
                where.append(_among(column, self._ids(names), words))
        rows = self._db.execute(
            f"SELECT user, queue, sum FROM hours WHERE {' AND '.join(where)}", words
        )
        totals: dict[tuple[int, int], HourSum] = {}
        for user, queue, body in rows:
            totals.setdefault((user, queue), HourSum()).add(_sum(body))
        names_of = dict(self._db.execute("SELECT id, name FROM names"))
        found = [
            UsageRow(user=names_of[user], queue=names_of[queue], sum=total)
            for (user, queue), total in totals.items()
        ]
        return sorted(found, key=lambda row: (row.user, row.queue))

    def _ids(self, names: Sequence[str]) -> list[int]:
        return [found for name in names if (found := self._known(name)) is not None]


def _among(column: str, ids: list[int], words: list[object]) -> str:
    words += ids
    return f"{column} IN ({','.join('?' * len(ids))})"


def _by(table: str, query: AttemptQuery) -> str:
    """Return the SQL clause that makes SQLite use the index with the fewest rows to read.

    SQLite cannot choose the index itself, because it does not know how many rows belong to a name.
    """
    if query.job:
        return ""
    if len(query.users) == 1:
        return f"INDEXED BY {table}_user"
    if len(query.queues) == 1 and not query.users:
        return f"INDEXED BY {table}_queue"
    return f"INDEXED BY {table}_ended"


def _whole(body: bytes, used: bytes | None) -> Attempt:
    attempt: Attempt = _attempt(body)
    return attempt if used is None else msgspec.structs.replace(attempt, used=_used(used))


def _add_to_sums(
    sums: dict[tuple[int, int, int], HourSum], user: int, queue: int, more: dict[int, HourSum]
) -> None:
    for hour, one in more.items():
        sums.setdefault((hour, user, queue), HourSum()).add(one)


def delete(path: str) -> None:
    """Delete the history in this file, if there is any."""
    for ending in ("-wal", "-shm", ""):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path + ending)
