"""The history of jobs. A thread writes and reads it while the head continues."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from phalanx.errors import HistoryUnavailableError
from phalanx.head.accounting.ledger import Answered
from phalanx.model.steps import LedgerRow
from phalanx.observe.accounting.questions import (
    AttemptPage,
    AttemptQuery,
    UsageQuery,
    UsageRow,
)
from phalanx.runtime.os.system import say
from phalanx.storage.errors import StorageError
from phalanx.storage.ledger import HistoryLimits, SqliteLedger

BATCH_ROWS = 1_000
GATHER_S = 0.1
"""Seconds for which records are collected, so that they are written together. Writing one record
costs as much as writing ten.
"""
AGAIN_S = 5.0
"""Seconds after a failed write until the thread tries to write again."""
MAX_WAITING = 100_000
"""The largest number of records that wait to be written, for example while the disk is full.
Further records stay in the store until the head starts again.
"""
MAX_QUESTIONS = 100
"""The largest number of queries that wait. Further queries are refused."""
_BAD = (sqlite3.Error, StorageError, OSError, msgspec.MsgspecError)


class LedgerThread:
    """The history of jobs in a SQLite file, which only one thread uses."""

    def __init__(
        self, path: str, limits: HistoryLimits, call: Callable[[Callable[[], None]], None]
    ) -> None:
        """`call` runs a function in the head's loop. Any thread may call it."""
        self._path = path
        self._limits = limits
        self._call = call
        self._ledger: SqliteLedger | None = None
        self._condition = threading.Condition()
        self._rows: deque[tuple[LedgerRow, Callable[[], None] | None]] = deque()
        self._questions: deque[tuple[Callable[[SqliteLedger], Any], Answered[Any]]] = deque()
        self._failed_at: float | None = None
        self._is_gathering = False
        """Whether the thread waits for more records before it writes."""
        self._thread: threading.Thread | None = None
        self._began = (time.time(), time.monotonic())

    # ---- in the head's loop --------------------------------------------------------------------

    def add(self, rows: Sequence[LedgerRow], kept: Callable[[], None]) -> None:
        """Write these rows later, except those whose keys are stored already. `kept` is called when
        all rows are on the disk. Do nothing if too many rows wait.
        """
        with self._condition:
            if len(self._rows) + len(rows) > MAX_WAITING:
                return
            for row in rows[:-1]:
                self._rows.append((row, None))
            self._rows.append((rows[-1], kept))
            if not self._is_gathering or len(self._rows) >= BATCH_ROWS:
                self._begin()

    def attempts(self, query: AttemptQuery, answered: Answered[AttemptPage]) -> None:
        """Look up the attempts that a query selects; those that ended last come first. `answered`
        gets the result.
        """
        self._ask(lambda ledger: ledger.attempts(query), answered)

    def usage(self, query: UsageQuery, answered: Answered[list[UsageRow]]) -> None:
        """Look up sums of what jobs used. `answered` gets the result."""
        self._ask(lambda ledger: ledger.usage(query), answered)

    def _ask(self, look: Callable[[SqliteLedger], Any], answered: Answered[Any]) -> None:
        with self._condition:
            if len(self._questions) < MAX_QUESTIONS:
                self._questions.append((look, answered))
                self._begin()
                return
        answered(
            HistoryUnavailableError(
                f"{MAX_QUESTIONS} questions are waiting already: ask again later."
            )
        )

    def _begin(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="ledger", daemon=True)
            self._thread.start()
        self._condition.notify()

    # ---- in the thread -------------------------------------------------------------------------

    def _work(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(self._has_work, self._rest_s())
                self._gather()
                taken = self._take()
                question = self._questions.popleft() if self._questions else None
            if taken:
                self._write(taken)
            if question is not None:
                self._answer(*question)

    def _gather(self) -> None:
        """Wait for more records, unless there are many already or a query waits."""
        self._is_gathering = True
        self._condition.wait_for(
            lambda: bool(self._questions) or len(self._rows) >= BATCH_ROWS, GATHER_S
        )
        self._is_gathering = False

    def _has_work(self) -> bool:
        return bool(self._questions) or (bool(self._rows) and not self._rest_s())

    def _rest_s(self) -> float | None:
        """Return the seconds until the thread tries again after a failed write; None if it need not
        wait.
        """
        if self._failed_at is None:
            return None
        return max(self._failed_at + AGAIN_S - time.monotonic(), 0.0) or None

    def _take(self) -> list[tuple[LedgerRow, Callable[[], None] | None]]:
        if self._rest_s():
            return []
        return [self._rows.popleft() for _ in range(min(len(self._rows), BATCH_ROWS))]

    def _write(self, taken: list[tuple[LedgerRow, Callable[[], None] | None]]) -> None:
        try:
            self._opened().add((row for row, _ in taken), self._certain())
        except _BAD as error:
            if self._failed_at is None:
                say(f"the history of jobs in {self._path} cannot be written ({error})")
            self._failed_at = time.monotonic()
            with self._condition:
                self._rows.extendleft(reversed(taken))
            return
        self._failed_at = None
        kept = [one for _, one in taken if one is not None]

        def tell() -> None:
            for one in kept:
                one()

        self._call(tell)

    def _certain(self) -> float:
        """Return the earliest time that it can be now, in seconds since the epoch.

        A clock that is wrong for a moment must not cause a year of history to be deleted.
        """
        wall, steady = self._began
        return min(time.time(), wall + time.monotonic() - steady)

    def _answer(self, look: Callable[[SqliteLedger], Any], answered: Answered[Any]) -> None:
        answer: Any
        try:
            answer = look(self._opened())
        except _BAD as error:
            answer = HistoryUnavailableError(
                f"The history of jobs in {self._path} cannot be read: {error}."
            )
        self._call(lambda: answered(answer))

    def _opened(self) -> SqliteLedger:
        if self._ledger is None:
            try:
                self._ledger = SqliteLedger(self._path, self._limits)
            except sqlite3.DatabaseError as error:
                if "not a database" not in str(error) and "malformed" not in str(error):
                    raise
                aside = f"{self._path}.damaged-{time.time():.0f}"
                os.rename(self._path, aside)
                say(f"the history of jobs was damaged ({error}): it is now {aside}")
                self._ledger = SqliteLedger(self._path, self._limits)
        return self._ledger
