"""The file with the history of jobs."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.observe.attempts import attempt, used

from phalanx.model.attempts import AttemptRow, UsedRow
from phalanx.model.steps import Step, StepRow
from phalanx.observe.accounting.questions import AttemptQuery, UsageQuery
from phalanx.observe.accounting.sums import total_of
from phalanx.storage.ledger import HistoryLimits, SqliteLedger

NOW = 40_000.0


@pytest.fixture
def path(tmp_path: Path) -> str:
    tmp_path.chmod(0o700)
    return str(tmp_path / "head.db.history")


@pytest.fixture
def ledger(path: str) -> Iterator[SqliteLedger]:
    made = SqliteLedger(path)
    yield made
    made.close()


def row(number: int, **fields: Any) -> AttemptRow:
    return AttemptRow(key=number.to_bytes(4, "big"), attempt=attempt(**fields))


def jobs(ledger: SqliteLedger, **query: Any) -> list[str]:
    return [one.job for one in ledger.attempts(AttemptQuery(**query)).attempts]


def test_an_attempt_comes_back_as_it_was(ledger: SqliteLedger, path: str) -> None:
    one = attempt(used=used(), waited_s=3.0, reason="why")
    ledger.add([AttemptRow(key=b"k", attempt=one)], NOW)
    assert ledger.attempts(AttemptQuery()).attempts == [one]
    again = SqliteLedger(path)
    assert again.attempts(AttemptQuery()).attempts == [one]
    again.close()
    mode = stat.S_IMODE(os.stat(path).st_mode)
    assert mode == 0o600


def test_the_same_attempt_counts_once(ledger: SqliteLedger) -> None:
    ledger.add([row(1), row(1, ended=39_700.0)], NOW)
    ledger.add([row(1)], NOW)
    assert jobs(ledger) == ["train"]
    [found] = ledger.usage(UsageQuery())
    assert (found.sum.attempts, found.sum.cpu_s) == (1, 7200.0)


def test_use_that_comes_later_is_added_once(ledger: SqliteLedger) -> None:
    late = UsedRow(key=(1).to_bytes(4, "big"), used=used())
    ledger.add([row(1), late, late, UsedRow(key=b"unknown", used=used())], NOW)
    ledger.add([late], NOW)
    assert ledger.attempts(AttemptQuery()).attempts[0].used == used()
    [found] = ledger.usage(UsageQuery())
    assert found.sum.cpu_used_s == pytest.approx(1800.0)


def test_questions(ledger: SqliteLedger) -> None:
    ledger.add(
        [
            row(1, job="a", user="ann", queue="lab", ended=36_100.0),
            row(2, job="b", user="bob", queue="lab", ended=36_200.0, state="Failed"),
            row(3, job="c[7]", user="ann", queue="other", ended=36_300.0),
            row(4, job="cc", user="ann", queue="other", ended=36_400.0, namespace="n"),
        ],
        NOW,
    )
    assert jobs(ledger) == ["cc", "c[7]", "b", "a"]
    assert jobs(ledger, users=["ann"]) == ["cc", "c[7]", "a"]
    assert jobs(ledger, users=["ann", "bob"], queues=["lab"]) == ["b", "a"]
    assert jobs(ledger, queues=["lab"]) == ["b", "a"]
    assert jobs(ledger, states=["Failed"]) == ["b"]
    assert jobs(ledger, users=["eve"]) == []
    assert jobs(ledger, since=36_200.0, until=36_400.0) == ["c[7]", "b"]
    assert jobs(ledger, job="default/c") == ["c[7]"]
    assert jobs(ledger, job="n/cc") == ["cc"]
    page = ledger.attempts(AttemptQuery(limit=3))
    assert page.is_cut and len(page.attempts) == 3
    assert not ledger.attempts(AttemptQuery(limit=4)).is_cut


def test_sums_are_by_hour_user_and_queue(ledger: SqliteLedger) -> None:
    ledger.add([row(1), row(2, user="bob"), row(3, started=43_200.0, ended=43_260.0)], NOW)
    whole = {(one.user, one.queue): one.sum for one in ledger.usage(UsageQuery())}
    assert {key: one.cpu_s for key, one in whole.items()} == {
        ("ann", "lab"): 7320.0, ("bob", "lab"): 7200.0,
    }  # fmt: skip
    [first] = ledger.usage(UsageQuery(since=36_000.0, until=39_600.0, users=["ann"]))
    assert first.sum.cpu_s == 7200.0
    assert ledger.usage(UsageQuery(since=36_001.0, until=43_200.0, users=["ann"]))[0].sum.cpu_s == 0


def test_what_is_too_old_or_too_much_is_forgotten_and_its_sums_stay(path: str) -> None:
    limits = HistoryLimits(days=1, records=2, sum_days=2)
    ledger = SqliteLedger(path, limits)
    ledger.add([row(number, job=f"j{number}", ended=39_600.0 + number) for number in range(4)], NOW)
    assert jobs(ledger) == ["j3", "j2"]
    ledger.add([], NOW + 86_400)
    assert jobs(ledger) == []
    assert total_of(one.sum for one in ledger.usage(UsageQuery())).attempts == 4
    ledger.add([], NOW + 3 * 86_400)
    assert ledger.usage(UsageQuery()) == []
    ledger.close()


def step(number: int, **fields: Any) -> StepRow:
    usual: dict[str, Any] = {
        "job": "train", "namespace": "default", "submitted": 35_000.0, "number": number,
        "name": "fit", "user": "ann", "queue": "lab", "command": "fit it", "tasks": 2,
        "state": "Completed", "started": 36_000.0, "ended": 36_000.0 + number,
    }  # fmt: skip
    return StepRow(key=b"k%d" % number, step=Step(**{**usual, **fields}))


def numbers(ledger: SqliteLedger, **query: Any) -> list[int]:
    page = ledger.attempts(AttemptQuery(has_steps=True, **query))
    return [one.number for one in page.steps]


def test_steps_are_kept_once_beside_attempts(ledger: SqliteLedger, path: str) -> None:
    ledger.add([row(1), step(1), step(1), step(2, user="bob", job="train[3]")], NOW)
    ledger.add([step(1), step(3, job="trainer", queue="other", state="Failed")], NOW)
    assert ledger.attempts(AttemptQuery()).steps == []
    assert numbers(ledger) == [3, 2, 1]
    assert numbers(ledger, job="default/train") == [2, 1]
    assert numbers(ledger, users=["bob"]) == [2]
    assert numbers(ledger, queues=["other"]) == numbers(ledger, states=["Failed"]) == [3]
    assert numbers(ledger, until=36_002.0) == [1]
    page = ledger.attempts(AttemptQuery(has_steps=True, has_attempts=False, limit=2))
    assert (page.attempts, page.is_cut, page.steps[1]) == (
        [],
        True,
        step(2, user="bob", job="train[3]").step,
    )
    [found] = ledger.usage(UsageQuery())
    assert found.sum.attempts == 1, "steps are in no sum"


def test_a_history_from_before_steps_goes_on(ledger: SqliteLedger, path: str) -> None:
    ledger.add([row(1)], NOW)
    ledger.close()
    old = sqlite3.connect(path)
    old.execute("DROP TABLE steps")
    old.commit()
    old.close()
    again = SqliteLedger(path)
    again.add([step(1)], NOW)
    assert (jobs(again), numbers(again)) == (["train"], [1])
    again.close()


def test_old_steps_are_forgotten_as_attempts_are(path: str) -> None:
    ledger = SqliteLedger(path, HistoryLimits(days=1, records=2))
    ledger.add([step(n) for n in range(1, 5)], NOW)
    assert numbers(ledger) == [4, 3]
    ledger.add([row(1, ended=NOW)], 36_003.5 + 86_400.0)
    assert numbers(ledger) == [4]
    ledger.close()


def test_a_batch_that_fails_leaves_nothing(ledger: SqliteLedger) -> None:
    bad = AttemptRow(key=b"bad", attempt=attempt(user="new", ended="never"))
    with pytest.raises(TypeError):
        ledger.add([row(1, user="other"), bad], NOW)
    assert jobs(ledger) == []
    ledger.add([row(1, user="other"), row(2, user="new")], NOW)
    assert {one.user for one in ledger.usage(UsageQuery())} == {"other", "new"}


@pytest.mark.parametrize("name", ["days", "records", "sum_days"])
def test_limits_below_one_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"history {name} must be 1 or more, not 0"):
        HistoryLimits(**{name: 0})


def test_a_file_of_another_program_is_refused(path: str) -> None:
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 9")
    db.close()
    os.chmod(path, 0o600)
    with pytest.raises(sqlite3.DatabaseError, match="not a history"):
        SqliteLedger(path)
