"""Slots, tested without a runtime: futures that the test completes stand for refs."""

from __future__ import annotations

from concurrent.futures import CancelledError, Future
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.util.slots import Slots


class Ref:
    def __init__(self):
        self.done: Future[Any] = Future()

    def future(self):
        return self.done


class Work:
    """Starts pieces of work on slots and remembers which piece is on which slot."""

    def __init__(self):
        self.running = {}

    def start(self, number):
        def on(slot):
            ref = Ref()
            self.running[number] = (slot, ref)
            return ref

        return on


def submitted(slots, work, count):
    futures: list[Future[Any]] = [Future() for _ in range(count)]
    for number, future in enumerate(futures):
        slots.submit(work.start(number), future)
    return futures


@given(slot_count=st.integers(1, 4), count=st.integers(0, 12), choices=st.lists(st.integers(0, 99)))
def test_every_slot_does_one_at_a_time_and_all_work_is_done(slot_count, count, choices):
    work = Work()
    slots = Slots(range(slot_count))
    futures = submitted(slots, work, count)
    picks = iter(choices)
    done = 0
    while work.running:
        busy = [slot for slot, _ in work.running.values()]
        assert len(busy) == len(set(busy)) == min(slot_count, count - done)
        number = sorted(work.running)[next(picks, 0) % len(work.running)]
        _, ref = work.running.pop(number)
        done += 1
        ref.done.set_result(number)
        assert futures[number].result(0) == number
    assert done == count
    assert slots.wait_until_idle(0)


def test_what_waits_longest_starts_first():
    work = Work()
    slots = Slots(["only"])
    submitted(slots, work, 3)
    assert list(work.running) == [0]
    work.running.pop(0)[1].done.set_result(None)
    assert list(work.running) == [1]


def test_a_cancelled_piece_never_starts():
    work = Work()
    slots = Slots(["only"])
    futures = submitted(slots, work, 3)
    assert futures[1].cancel()
    work.running.pop(0)[1].done.set_result(None)
    assert list(work.running) == [2]


def test_errors_reach_the_future_and_free_the_slot():
    work = Work()
    slots = Slots(["only"])
    futures = submitted(slots, work, 2)
    work.running.pop(0)[1].done.set_exception(KeyError("lost"))
    assert isinstance(futures[0].exception(0), KeyError)
    assert list(work.running) == [1]


def test_a_start_that_fails_frees_the_slot():
    slots = Slots(["only"])
    failed: Future[Any] = Future()
    fine: Future[Any] = Future()

    def refuse(slot):
        raise ValueError("no such option")

    slots.submit(refuse, failed)
    work = Work()
    slots.submit(work.start(0), fine)
    assert isinstance(failed.exception(0), ValueError)
    assert list(work.running) == [0]


def test_what_waits_can_be_failed():
    work = Work()
    slots = Slots(["only"])
    futures = submitted(slots, work, 3)
    slots.fail_waiting(ValueError("over"))
    assert not futures[0].done()
    assert [type(future.exception(0)) for future in futures[1:]] == [ValueError, ValueError]
    assert not slots.wait_until_idle(0)
    work.running.pop(0)[1].done.set_result(1)
    assert slots.wait_until_idle(0)


def test_a_result_for_a_cancelled_future_is_dropped():
    work = Work()
    slots = Slots(["only"])
    [future] = submitted(slots, work, 1)
    future.cancel()
    work.running.pop(0)[1].done.set_result("late")
    assert future.cancelled()
    with pytest.raises(CancelledError):
        future.result(0)
