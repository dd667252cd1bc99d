"""Notes about workers that crash. Many crashes are joined in one line."""

from __future__ import annotations

from phalanx.node.crash_notes import FIRST_GAP_S, LONGEST_GAP_S, CrashNotes


class Reader:
    def __init__(self):
        self.now = 0.0
        self.lines = []
        self.notes = CrashNotes(self.note, lambda: self.now)

    def note(self, text, *, level="", job=""):
        self.lines.append((text, job))

    def crash(self, pid, job="j", how="ended with exit code 3"):
        self.notes.crashed(f"w{pid}", job, f"worker process {pid} {how}")

    def after(self, seconds):
        self.now += seconds
        self.notes.tick(self.now)
        found, self.lines = self.lines, []
        return found


def test_the_first_is_told_at_once_and_others_that_follow_are_folded():
    reader = Reader()
    for pid in range(1, 101):
        reader.crash(pid)
    assert reader.after(0) == [("w1: worker process 1 ended with exit code 3", "j")]
    assert reader.after(FIRST_GAP_S / 2) == []
    last = "w100: worker process 100 ended with exit code 3"
    text = f"99 more ended in the same way in 5 s; the last: {last}"
    assert reader.after(FIRST_GAP_S / 2) == [(text, "j")]
    reader.crash(101)
    assert reader.after(FIRST_GAP_S) == []  # the gaps grow
    ((text, _),) = reader.after(FIRST_GAP_S)
    assert text.startswith("1 more ended in the same way in 10 s")


def test_what_ends_otherwise_or_for_another_job_is_told_at_once():
    reader = Reader()
    reader.crash(1)
    reader.crash(2, job="k")
    reader.crash(3, how="was ended by SIGSEGV")
    assert [job for _, job in reader.after(0)] == ["j", "k", "j"]


def test_after_a_quiet_while_the_next_is_a_first_one():
    reader = Reader()
    reader.crash(1)
    reader.after(FIRST_GAP_S)
    reader.crash(2)
    ((text, _),) = reader.after(0)
    assert text.startswith("w2: ")


def test_nothing_that_was_folded_waits_for_longer_than_the_longest_gap():
    reader = Reader()
    told = 0
    for pid in range(1000):
        reader.crash(pid)
        told += len(reader.after(1.0))
    assert 1000 / LONGEST_GAP_S <= told < 30
