"""The journal of finished attempts."""

from __future__ import annotations

import sys
import threading

import pytest

from phalanx.model.lifecycle import (
    FINISHED,
    PENDING_NODE,
    RUNNING,
    SUBMITTED,
    IllegalTransition,
)
from phalanx.observe.task_journal import (
    KEEP_RUNS,
    TASK_ALONE,
    UNLISTED,
    About,
    Run,
    Runs,
    TaskJournal,
)


@pytest.fixture
def quick_switches():
    """Let threads switch every microsecond, so that a short test covers many interleavings."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("quick_switches")
def test_runs_are_read_while_others_are_written():
    """One thread of a program reads the finished attempts while the thread that handles results
    adds some.
    """
    journal = TaskJournal()
    run = (1, "f", "FINISHED", 0.0, 1.0, b"", 0, TASK_ALONE, 0.0, None, "", "")
    is_over = threading.Event()

    def write():
        while not is_over.is_set():
            journal.add_run(run)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        while len(journal.runs()) < 5_000:
            journal.unreported_runs(10)
    finally:
        is_over.set()
        writer.join()


class Together:
    """Tasks with consecutive numbers whose state changes at the same time, as in a burst."""

    def __init__(self, number: int, state: str = PENDING_NODE) -> None:
        self.number = number
        self.state = state


def runs_of(first: int, count: int, about: About = TASK_ALONE) -> Runs:
    return Runs(
        first,
        "f",
        about,
        b"w",
        started=[first + at for at in range(count)],
        ended=[first + at + 0.5 for at in range(count)],
        created=[first + at - 1.0 for at in range(count)],
        parent=None,
    )


def test_tasks_that_change_together_have_a_state_each():
    journal = TaskJournal()
    burst = Together(5)
    journal.move_all(burst, 4, SUBMITTED, 1.0)
    journal.ran_all(burst, runs_of(5, 3))
    assert burst.state == FINISHED
    assert journal.states() == {5: FINISHED, 6: FINISHED, 7: FINISHED, 8: SUBMITTED}
    assert [state for _, state, _ in journal.story(8)] == [PENDING_NODE, SUBMITTED]
    assert [state for _, state, _ in journal.story(6)] == [
        PENDING_NODE,
        SUBMITTED,
        RUNNING,
        FINISHED,
    ]
    assert journal.story(9) == []


@pytest.mark.parametrize("state", [RUNNING, FINISHED])
def test_tasks_that_change_together_obey_the_table(state):
    journal = TaskJournal()
    burst = Together(5)
    with pytest.raises(IllegalTransition):
        journal.move_all(burst, 4, state, 1.0)
    with pytest.raises(IllegalTransition):
        journal.ran_all(burst, runs_of(5, 4))
    assert burst.state == PENDING_NODE


def test_runs_together_are_listed_as_one_by_one():
    together, alone = TaskJournal(), TaskJournal()
    together.add_runs(runs_of(7, 5))
    for run in runs_of(7, 5).each():
        alone.add_run(run)
    assert together.runs() == alone.runs()
    assert together.runs()[2] == Run(9, "f", FINISHED, 9.0, 9.5, b"w", 0, TASK_ALONE, 8.0)
    assert together.unreported_runs(3) == alone.unreported_runs(3) == alone.runs()[-3:]
    assert together.unreported_runs(3) == []
    together.add_runs(runs_of(20, 2))
    assert [run.number for run in together.unreported_runs(100)] == [20, 21]
    assert [run.number for run in together.drain_runs()] == [7, 8, 9, 10, 11, 20, 21]
    assert together.runs() == []


@pytest.mark.parametrize("count", [1, 7, 300])
def test_only_the_latest_runs_are_kept(count):
    journal = TaskJournal()
    number = 1
    while number < 2.2 * KEEP_RUNS:
        journal.add_runs(runs_of(number, count))
        number += count
        if count < 300:
            journal.add_run(
                (number, "g", FINISHED, 0.0, 1.0, b"", 0, TASK_ALONE, 0.0, None, "", "")
            )
            number += 1
    assert [run.number for run in journal.runs()] == list(range(number - KEEP_RUNS, number))


def test_runs_that_are_not_listed_are_counted():
    journal = TaskJournal()
    journal.add_runs(runs_of(7, 5, UNLISTED))
    assert journal.runs() == []
    assert [len(runs) for runs in journal.take_uncounted()] == [5]
