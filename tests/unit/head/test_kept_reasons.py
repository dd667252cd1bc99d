"""The reasons why jobs wait are computed anew each time while that is cheap, and kept for a while
when it is not.
"""

from __future__ import annotations

from tests.world.clock import ManualClock

from phalanx.head.gangs.kept_reasons import PAUSE, SHORT_S, UNCHANGED_S, KeptReasons


class Head:
    """Computes answers, each of which takes `took_s`."""

    def __init__(self, took_s: float) -> None:
        self.clock = ManualClock()
        self.took_s, self.count, self.changes = took_s, 0, 0
        self.reasons = KeptReasons(self.clock, self.work_out, lambda: self.changes)

    def work_out(self) -> dict[str, str]:
        self.clock.time_s += self.took_s
        self.count += 1
        return {"a": f"reason {self.count}"}

    def asked(self) -> str:
        return self.reasons.get()["a"]


def test_a_cheap_answer_is_always_new():
    head = Head(SHORT_S / 2)
    assert [head.asked() for _ in range(3)] == ["reason 1", "reason 2", "reason 3"]


def test_a_dear_answer_is_good_for_so_long_that_all_who_ask_take_a_tenth_of_the_time():
    head = Head(1.0)
    assert head.asked() == "reason 1"
    head.changes += 1
    head.clock.time_s += PAUSE - 0.1
    assert head.asked() == "reason 1"
    head.clock.time_s += 0.1
    assert head.asked() == "reason 2"
    assert head.count == 2


def test_a_dear_answer_stays_good_while_nothing_changes():
    head = Head(2 * SHORT_S)
    assert head.asked() == "reason 1"
    head.clock.time_s += UNCHANGED_S - 0.1
    assert head.asked() == "reason 1"
    head.changes += 1
    assert head.asked() == "reason 2"
    head.clock.time_s += UNCHANGED_S
    assert head.asked() == "reason 3"


def test_a_change_while_an_answer_is_worked_out_makes_it_old():
    head = Head(2 * SHORT_S)
    work_out = head.work_out

    def changed() -> dict[str, str]:
        head.changes += 1
        return work_out()

    head.reasons = KeptReasons(head.clock, changed, lambda: head.changes)
    assert head.asked() == "reason 1"
    head.clock.time_s += UNCHANGED_S - 0.1
    assert head.asked() == "reason 2"
