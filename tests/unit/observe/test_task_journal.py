"""The journal of finished attempts."""

from __future__ import annotations

import sys
import threading

import pytest

from phalanx.observe.task_journal import TASK_ALONE, TaskJournal


@pytest.fixture
def quick_switches():
    """Threads take turns after microseconds, so that few steps meet each other in many ways."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("quick_switches")
def test_runs_are_read_while_others_are_written():
    """A program's thread asks for them while the one that hears of results adds some."""
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
