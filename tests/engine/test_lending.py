"""Who borrows what: an object lives exactly as long as somebody is registered for it."""

from __future__ import annotations

import gc

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from phalanx.objects.reference import make_ref
from phalanx.owner.borrowing import Lending

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


class Borrowers(RuleBasedStateMachine):
    """Registrations and farewells in any order agree with plain counting."""

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


Borrowers.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestBorrowers = Borrowers.TestCase
