"""The thread of the job history: its answers arrive in the head's loop, and it survives faults of
its file.
"""

from __future__ import annotations

import os
import queue
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.observe.attempts import attempt

from phalanx.errors import HistoryUnavailableError
from phalanx.model.attempts import AttemptRow
from phalanx.observe.accounting.questions import AttemptPage, AttemptQuery
from phalanx.runtime.head import ledger_thread
from phalanx.runtime.head.ledger_thread import LedgerThread
from phalanx.storage.ledger import HistoryLimits

PATIENCE_S = 120


class Loop:
    """The head's loop. It runs what the thread hands to it when the test says so."""

    def __init__(self, path: str) -> None:
        self.given: queue.Queue[Any] = queue.Queue()
        self.thread = LedgerThread(path, HistoryLimits(), self.given.put)
        self.kept = 0

    def add(self, *keys: bytes) -> None:
        one = attempt(ended=4e9, started=4e9)
        self.thread.add([AttemptRow(key=key, attempt=one) for key in keys], self._count)

    def _count(self) -> None:
        self.kept += 1

    def turn(self) -> None:
        self.given.get(timeout=PATIENCE_S)()

    def ask(self) -> AttemptPage | Exception:
        answers: list[Any] = []
        self.thread.attempts(AttemptQuery(), answers.append)
        while not answers:
            self.turn()
        answer: AttemptPage | Exception = answers[0]
        return answer


@pytest.fixture
def path(tmp_path: Path) -> str:
    tmp_path.chmod(0o700)
    return str(tmp_path / "history")


def count(loop: Loop) -> int:
    page = loop.ask()
    assert isinstance(page, AttemptPage)
    return len(page.attempts)


def test_what_is_kept_is_told_in_the_loop(path: str) -> None:
    loop = Loop(path)
    loop.add(b"1", b"2")
    loop.turn()
    assert (loop.kept, count(loop)) == (1, 2)


def test_a_clock_that_is_wrong_for_a_moment_has_nothing_forgotten(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall_s = 4e9
    clock = SimpleNamespace(time=lambda: wall_s, monotonic=time.monotonic)
    monkeypatch.setattr(ledger_thread, "time", clock)
    loop = Loop(path)
    loop.add(b"1")
    loop.turn()
    wall_s += 400 * 86_400.0
    loop.add(b"2")
    loop.turn()
    assert count(loop) == 2


def test_what_comes_within_a_moment_is_written_together_and_before_an_answer(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_thread, "GATHER_S", PATIENCE_S)
    loop = Loop(path)
    loop.add(b"1")
    loop.add(b"2")
    assert count(loop) == 2, "a question does not wait"
    assert loop.kept == 2
    assert loop.given.empty(), "they were told of together"


def test_a_damaged_file_is_put_aside(path: str) -> None:
    Path(path).write_bytes(b"no database at all, and long enough to look like one" * 100)
    os.chmod(path, 0o600)
    loop = Loop(path)
    loop.add(b"1")
    loop.turn()
    assert count(loop) == 1
    aside = [name for name in os.listdir(os.path.dirname(path)) if ".damaged-" in name]
    assert len(aside) == 1


def test_a_file_that_others_may_read_is_said_to_be_and_tried_again(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_thread, "AGAIN_S", 0.01)
    Path(path).write_bytes(b"")
    os.chmod(path, 0o644)
    loop = Loop(path)
    loop.add(b"1")
    answer = loop.ask()
    assert isinstance(answer, HistoryUnavailableError) and "chmod 600" in str(answer)
    os.chmod(path, 0o600)
    while not loop.kept:
        loop.turn()
    assert count(loop) == 1


def test_more_than_may_wait_is_refused(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_thread, "MAX_QUESTIONS", 0)
    answer = Loop(path).ask()
    assert isinstance(answer, HistoryUnavailableError) and "questions are waiting" in str(answer)
    monkeypatch.setattr(ledger_thread, "MAX_WAITING", 1)
    monkeypatch.setattr(ledger_thread, "MAX_QUESTIONS", 10)
    loop = Loop(path)
    loop.add(b"1", b"2")
    assert count(loop) == 0, "they stay in the store"
