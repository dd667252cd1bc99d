"""Admission of ordinary tasks: whose turn it is, and how much is admitted."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import examples

from phalanx.head.queues.task_admission import AHEAD, AdmissionTable, Batch, Share

CPU = {"CPU": 1.0}


def a_batch(ticket, queue="a", size=1, priority=0, needs=None, owner=b"me"):
    return Batch(
        ticket=ticket, owner=owner, queue=queue, priority=priority, needs=needs or CPU, size=size
    )


def a_table(cpus=4.0, **shares):
    table = AdmissionTable()
    table.capacity = {"CPU": cpus}
    table.shares = shares
    return table


def test_a_batch_waits_until_its_size_is_known():
    table = a_table()
    table.ask(a_batch(b"1", size=0))
    assert table.admit_due() == []
    table.sized(b"1", 2)
    assert table.admit_due() == [b"1"]
    assert table.used("a") == {"CPU": 2.0}


def test_no_more_is_let_through_than_twice_what_there_is():
    table = a_table(cpus=2)
    for number in range(10):
        table.ask(a_batch(b"%d" % number))
    assert table.admit_due() == [b"0", b"1", b"2", b"3"]
    table.done(b"1", 1)
    assert table.admit_due() == [b"4"]


def test_priority_goes_before_shares_and_age():
    table = a_table(cpus=0.5)
    for ticket, queue, priority in ((b"old", "a", 0), (b"new", "b", 0), (b"urgent", "a", 5)):
        table.ask(a_batch(ticket, queue, priority=priority))
    assert table.admit_due() == [b"urgent"]
    table.done(b"urgent", 1)
    assert table.admit_due() == [b"old"]


def test_queues_get_time_by_their_weights():
    table = a_table(cpus=1.5, a=Share(weight=2), b=Share(weight=1))
    for number in range(300):
        table.ask(a_batch(b"a%d" % number, "a"))
        table.ask(a_batch(b"b%d" % number, "b"))
    running = table.admit_due()
    ended = []
    for step in range(300):
        table.advance(float(step))
        ended.append(running.pop(0))
        table.done(ended[-1], 1)
        running += table.admit_due()
    of_a = sum(ticket.startswith(b"a") for ticket in ended)
    assert 190 <= of_a <= 210


def test_many_gates_that_open_at_once_are_shared_by_weight():
    table = a_table(cpus=6, a=Share(weight=2), b=Share(weight=1))
    for number in range(20):
        table.ask(a_batch(b"a%d" % number, "a"))
        table.ask(a_batch(b"b%d" % number, "b"))
    opened = table.admit_due()
    assert sum(ticket.startswith(b"a") for ticket in opened) == 8
    assert sum(ticket.startswith(b"b") for ticket in opened) == 4


def test_a_queue_that_was_idle_does_not_catch_up():
    table = a_table(cpus=0.5)
    for number in range(200):
        table.ask(a_batch(b"a%d" % number, "a"))
    running = table.admit_due()
    for step in range(100):
        table.advance(float(step))
        table.done(running.pop(0), 1)
        running += table.admit_due()
    for number in range(100):
        table.ask(a_batch(b"b%d" % number, "b"))
    ended = []
    for step in range(100, 140):
        table.advance(float(step))
        ended.append(running.pop(0))
        table.done(ended[-1], 1)
        running += table.admit_due()
    of_b = sum(ticket.startswith(b"b") for ticket in ended)
    assert 18 <= of_b <= 22


def test_a_queue_stays_within_what_it_may_use():
    table = a_table(cpus=8, a=Share(capability={"CPU": 3}))
    for number in range(5):
        table.ask(a_batch(b"%d" % number, size=2))
    assert table.admit_due() == [b"0"]
    table.done(b"0", 1)
    assert table.admit_due() == [b"1"]


def test_what_no_node_has_is_left_to_the_engine():
    table = a_table()
    table.ask(a_batch(b"1", needs={"TPU": 1.0}))
    assert table.admit_due() == [b"1"]


def test_an_owner_that_is_gone_takes_its_tasks_along():
    table = a_table(cpus=0.5)
    table.ask(a_batch(b"1", size=3))
    table.ask(a_batch(b"2"))
    table.ask(a_batch(b"3", owner=b"other"))
    assert table.admit_due() == [b"1"]
    table.owner_gone(b"me")
    assert table.used("a") == {"CPU": 0.0}
    assert table.admit_due() == [b"3"]


def test_what_ran_before_the_table_was_there_counts():
    table = a_table(cpus=1)
    table.restore(a_batch(b"1", size=2))
    table.restore(a_batch(b"1", size=2))
    assert table.used("a") == {"CPU": 2.0}
    table.ask(a_batch(b"2"))
    assert table.admit_due() == []
    table.done(b"1", 1)
    assert table.admit_due() == [b"2"]


def test_a_batch_of_none_is_forgotten():
    table = a_table()
    table.ask(a_batch(b"1", size=0))
    table.sized(b"1", 0)
    assert list(table.waiting()) == []


QUEUES = ("a", "b", "c")
_events = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.sampled_from(QUEUES), st.integers(0, 2), st.integers(1, 4)),
        st.tuples(st.just("done"), st.integers(0, 30), st.just(0), st.integers(1, 4)),
        st.tuples(st.just("gone"), st.sampled_from((b"x", b"y")), st.just(0), st.just(1)),
    ),
    max_size=60,
)


@settings(max_examples=examples(150))
@given(_events, st.sampled_from((1.0, 2.5, 8.0)))
def test_the_books_balance(events, cpus):
    table = a_table(cpus, a=Share(weight=3), c=Share(capability={"CPU": 2.0}))
    left: dict[bytes, list[Any]] = {}
    for number, (what, first, priority, count) in enumerate(events):
        table.advance(float(number))
        if what == "ask":
            ticket = b"%d" % number
            owner = b"x" if number % 2 else b"y"
            table.ask(a_batch(ticket, first, count, priority, owner=owner))
            left[ticket] = [first, count, False, owner]
        elif what == "done" and (opened := [t for t, one in left.items() if one[2]]):
            ticket = opened[first % len(opened)]
            table.done(ticket, count)
            left[ticket][1] -= count
            if left[ticket][1] <= 0:
                del left[ticket]
        elif what == "gone":
            table.owner_gone(first)
            left = {ticket: one for ticket, one in left.items() if one[3] != first}
        for ticket in table.admit_due():
            left[ticket][2] = True
        for queue in QUEUES:
            held = sum(one[1] for one in left.values() if one[2] and one[0] == queue)
            assert table.used(queue).get("CPU", 0.0) == held
        assert table.used("c").get("CPU", 0.0) <= 2.0
        assert sum(table.used(q).get("CPU", 0.0) for q in QUEUES) < AHEAD * cpus + 4
        assert {batch.ticket for batch in table.waiting()} == {
            ticket for ticket, one in left.items() if not one[2]
        }
