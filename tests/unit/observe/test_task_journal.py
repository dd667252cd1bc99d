"""The journal of finished attempts."""

from __future__ import annotations

import threading

from phalanx.observe.task_journal import TASK_ALONE, TaskJournal


def test_runs_are_read_while_others_are_written():
    """A program's thread asks for them while the one that hears of results adds some."""
    journal = TaskJournal()
    run = (1, "f", "FINISHED", 0.0, 1.0, b"", 0, TASK_ALONE, 0.0, None, "")
    is_over = threading.Event()

    def write():
        while not is_over.is_set():
            journal.add_run(run)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(100):
            journal.runs()
            journal.unreported_runs(10)
    finally:
        is_over.set()
        writer.join()
    assert len(journal.runs()) > 0
