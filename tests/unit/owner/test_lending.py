"""Borrowers: an object lives exactly as long as some process is registered for it."""

from __future__ import annotations

import gc

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.effort import examples

from phalanx.objects.reference import make_ref
from phalanx.owner.objects.lending import Lending

OWNER = b"o" * 16


def lent(number=1):
    lending = Lending()
    ref = make_ref(OWNER, number)
    lending.exported[number] = ref
    return lending, ref


def test_a_lent_object_lives_without_a_reference_here():
    lending, ref = lent()
    assert lending.add(1, b"a")
    del ref
    gc.collect()
    assert 1 in lending.exported
    lending.remove(1, b"a", 1)
    gc.collect()
    assert 1 not in lending.exported
    assert not lending.add(1, b"a"), "gone is gone"


def test_crossing_messages_are_counted():
    lending, _ref = lent()
    lending.add(1, b"a")
    lending.add(1, b"a")  # lent again, while the borrower's farewell is on its way
    lending.remove(1, b"a", 1)
    assert lending.borrowers(1) == [b"a"]


def test_a_process_that_dies_holds_nothing():
    lending, _ref = lent()
    lending.add(1, b"a", 5)
    lending.add(1, b"b")
    lending.process_gone(b"a")
    lending.process_gone(b"a")
    assert lending.borrowers(1) == [b"b"]


def test_farewells_of_strangers_do_nothing():
    lending, _ref = lent()
    lending.remove(1, b"x", 1)
    lending.add(1, b"a")
    lending.remove(1, b"x", 9)
    assert lending.borrowers(1) == [b"a"]


@pytest.mark.parametrize(
    ("events", "holders"),
    [
        ("lend cut", ["a"]),
        ("cut", []),
        ("lend cut tell:0", []),
        ("lend cut tell:1", ["a"]),
        ("lend cut tell:1 return:1", []),
        ("lend lend cut tell:2 return:1", ["a"]),
        ("lend cut lend tell:1", ["a"]),  # what was lent over the new connection counts beside
        ("lend cut lend tell:1 return:1", ["a"]),
        ("lend cut lend tell:1 return:2", []),
        ("lend cut cut tell:0", []),
        ("lend cut tell:1 cut", ["a"]),
        ("lend cut tell:1 cut tell:1 return:1", []),
        ("lend cut lend cut tell:0", []),
        ("lend cut tell:1 tell:1 return:1", []),  # both sides dialled, and it told on both ways
        ("lend cut tell:1 tell:0", []),
        ("lend lend cut tell:2 return:1 tell:1", ["a"]),
        ("lend lend cut tell:2 return:1 tell:1 return:1", []),
        ("lend cut tell:1 lend tell:1 return:1", ["a"]),  # what is on its way to it counts beside
        ("lend cut tell:1 lend tell:1 return:2", []),
        ("lend cut tell:1 return:1 lend tell:0", ["a"]),
        ("lend cut tell:1 cut tell:1 tell:1 return:1", []),
        ("lend cut return:1", ["a"]),  # it says first what it holds
        ("lend cut die", []),
        ("lend cut lend die", []),
        ("lend cut die tell:1", ["a"]),  # it was given up, and lives
        ("tell:1", ["a"]),  # what it had borrowed was never told over the connection before
    ],
)
def test_a_connection_that_ends_leaves_what_was_lent_in_doubt(events, holders):
    lending, ref = lent()
    for event in events.split():
        what, _, count = event.partition(":")
        match what:
            case "lend":
                lending.add(1, b"a")
            case "cut":
                assert lending.connection_lost(b"a") == (b"a" in lending.borrowers(1))
            case "tell":
                lending.declare(b"a", [(1, int(count))] if int(count) else [])
            case "return":
                lending.remove(1, b"a", int(count))
            case "die":
                lending.process_gone(b"a")
    assert lending.borrowers(1) == [holder.encode() for holder in holders]
    assert len(lending) == bool(holders)
    del ref
    gc.collect()
    assert (1 in lending.exported) == bool(holders)


def test_the_doubt_is_of_one_borrower():
    lending, _ref = lent()
    lending.add(1, b"a")
    lending.add(1, b"b")
    lending.connection_lost(b"a")
    lending.declare(b"b", [])
    assert lending.borrowers(1) == [b"b", b"a"]


class EndingConnections(RuleBasedStateMachine):
    """An owner and one borrower. Their connection ends again and again, and loses all messages that
    are on their way.
    """

    numbers = st.integers(1, 2)

    def __init__(self):
        super().__init__()
        self.lending = Lending()
        self.refs = {n: make_ref(OWNER, n) for n in (1, 2)}
        for number, ref in self.refs.items():
            self.lending.exported[number] = ref
        self.held = {1: 0, 2: 0}
        self.is_up = True
        self.to_borrower = []
        self.to_owner = []

    @rule(number=numbers)
    def lend(self, number):
        """Lend an object inside a value. The object is lost if the connection has ended and the
        owner has not yet noticed this.
        """
        self.lending.add(number, b"a")
        if self.is_up:
            self.to_borrower.append(number)

    @rule()
    def receive(self):
        if self.to_borrower:
            self.held[self.to_borrower.pop(0)] += 1

    @rule(number=numbers)
    def release(self, number):
        if self.is_up and self.held[number]:
            self.to_owner.append((number, self.held[number]))
        self.held[number] = 0

    @rule()
    def hear(self):
        if self.to_owner:
            match self.to_owner.pop(0):
                case dict() as counts:
                    self.lending.declare(b"a", list(counts.items()))
                case number, count:
                    self.lending.remove(number, b"a", count)

    @rule()
    def cut(self):
        self.is_up = False
        self.to_borrower.clear()
        self.to_owner.clear()

    @rule()
    def dial_again(self):
        if not self.is_up:
            self.is_up = True
            self.lending.connection_lost(b"a")
            self.to_owner.append({n: count for n, count in self.held.items() if count})

    @invariant()
    def what_is_held_is_kept(self):
        for number, count in self.held.items():
            assert not count or self.lending.borrowers(number) == [b"a"]

    def teardown(self):
        """Check that nothing is kept when all messages have arrived and nobody has a reference."""
        self.dial_again()
        while self.to_borrower or self.to_owner:
            self.receive()
            self.hear()
        for number in self.held:
            self.release(number)
            self.hear()
        assert len(self.lending) == 0


EndingConnections.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=40)
TestEndingConnections = EndingConnections.TestCase


class Borrowers(RuleBasedStateMachine):
    """Checks that registrations and deregistrations in any order give the same result as plain
    counting.
    """

    numbers = st.integers(1, 3)
    who = st.sampled_from([b"a", b"b", b"c"])

    def __init__(self):
        super().__init__()
        self.lending = Lending()
        self.refs = {n: make_ref(OWNER, n) for n in (1, 2, 3)}
        for number, ref in self.refs.items():
            self.lending.exported[number] = ref
        self.counts = {}

    @rule(number=numbers, process=who, count=st.integers(1, 3))
    def add(self, number, process, count):
        assert self.lending.add(number, process, count)
        key = (number, process)
        self.counts[key] = self.counts.get(key, 0) + count

    @rule(number=numbers, process=who, count=st.integers(1, 4))
    def remove(self, number, process, count):
        self.lending.remove(number, process, count)
        left = self.counts.get((number, process), 0) - count
        self.counts[number, process] = max(left, 0)

    @rule(process=who)
    def die(self, process):
        self.lending.process_gone(process)
        for number in self.refs:
            self.counts[number, process] = 0

    @invariant()
    def agrees(self):
        for number in self.refs:
            held = {p for (n, p), count in self.counts.items() if n == number and count}
            assert set(self.lending.borrowers(number)) == held
        assert len(self.lending) == len({n for (n, _), count in self.counts.items() if count})


Borrowers.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=25)
TestBorrowers = Borrowers.TestCase
