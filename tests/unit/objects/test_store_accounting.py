"""The account of shared memory: capacity, the credit of each process, and objects in the order of
their last use.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.effort import examples

from phalanx.objects.store_accounting import CHUNK_BYTES, StoreAccounting

MIB = 1 << 20
CAPACITY = 256 * MIB


def test_credit_comes_in_chunks_while_there_is_room():
    accounting = StoreAccounting(CAPACITY)
    assert accounting.grant(b"a", 1000) == CHUNK_BYTES
    assert accounting.used_bytes == CHUNK_BYTES


def test_credit_is_what_was_asked_when_there_is_little_room():
    accounting = StoreAccounting(MIB)
    assert accounting.grant(b"a", MIB) == MIB
    assert accounting.missing(1) == 1


def test_what_processes_keep_for_their_next_objects_is_free_and_no_object():
    accounting = StoreAccounting(CAPACITY)
    accounting.grant(b"a", 64 * MIB)
    accounting.sealed("o", 60 * MIB, b"a")
    assert accounting.free_bytes == CAPACITY - 64 * MIB
    accounting.kept("o", b"a")
    assert accounting.free_bytes == CAPACITY - 4 * MIB
    assert (accounting.used_bytes, accounting.counts()["objects"]) == (64 * MIB, 0)
    assert accounting.victims(1) == []
    accounting.dropped("o", 60 * MIB, b"a")
    assert (accounting.used_bytes, accounting.free_bytes) == (64 * MIB, CAPACITY - 64 * MIB)


def test_what_is_kept_before_its_writer_said_that_it_wrote_it():
    accounting = StoreAccounting(CAPACITY)
    accounting.grant(b"a", MIB)
    accounting.kept("61-1", b"a")
    accounting.sealed("61-1", MIB, b"a")
    assert (accounting.counts()["objects"], accounting.kept_bytes) == (0, MIB)
    accounting.dropped("61-1", 0, b"a")
    accounting.kept("61-2", b"a")
    accounting.process_gone(b"a")
    accounting.sealed("61-2", MIB, b"a")
    assert accounting.counts()["objects"] == 1


def test_of_what_is_kept_the_oldest_goes_first():
    accounting = StoreAccounting(CAPACITY)
    for name, process in (("o", b"a"), ("p", b"b"), ("q", b"a")):
        accounting.sealed(name, MIB, process)
        accounting.kept(name, process)
    assert accounting.oldest_kept(MIB + 1) == [("o", b"a"), ("p", b"b")]
    assert accounting.oldest_kept(0) == []


def test_the_oldest_go_first():
    accounting = StoreAccounting(CAPACITY)
    for i in range(4):
        accounting.sealed(f"o{i}", MIB, b"a")
    assert [name for name, _, _ in accounting.victims(MIB + 1)] == ["o0", "o1"]
    accounting.spilled("o0")
    accounting.lost("o1")
    assert [name for name, _, _ in accounting.victims(1)] == ["o2"]
    assert accounting.counts()["spilled_objects"] == 1


def test_a_dead_process_keeps_no_credit():
    accounting = StoreAccounting(CAPACITY)
    accounting.grant(b"a", MIB)
    accounting.process_gone(b"a")
    assert accounting.used_bytes == 0


def test_a_dead_process_owns_what_it_claimed_and_what_it_wrote_and_nobody_claimed():
    accounting = StoreAccounting(CAPACITY)
    accounting.claimed("b-1", b"a")
    accounting.claimed("a-2", b"c")
    assert accounting.owned(b"a", ["a-1", "a-2"]) == ["b-1", "a-1"]
    accounting.dropped("b-1", 0, b"a")
    assert accounting.owned(b"a", []) == []


def test_a_dead_process_keeps_no_files():
    """The process may have renamed a file, and died before it reported that."""
    accounting = StoreAccounting(CAPACITY)
    accounting.sealed("a-1", MIB, b"a")
    accounting.kept("a-1", b"a")
    assert accounting.owned(b"a", ["a-2"]) == ["a-2", "a-1"]
    assert accounting.owned(b"b", []) == []


def test_what_was_read_last_is_spilled_last():
    accounting = StoreAccounting(CAPACITY)
    accounting.grant(b"a", 300)
    for name in ("first", "second", "third"):
        accounting.sealed(name, 100, b"a")
    accounting.used("first")
    accounting.used("never heard of")
    assert [name for name, _, _ in accounting.victims(300)] == ["second", "third", "first"]


class Accounts(RuleBasedStateMachine):
    """Writers that stay within their credit. Checks that the memory in use is what was written and
    promised, and never negative.
    """

    def __init__(self):
        super().__init__()
        self.accounting = StoreAccounting(CAPACITY)
        self.credit = {b"a": 0, b"b": 0}
        self.shared = {}
        self.kept = {}
        self.spilled = {}
        self.count = 0

    who = st.sampled_from([b"a", b"b"])

    @rule(process=who, size=st.integers(1, 40 * MIB))
    def write(self, process, size):
        if self.credit[process] < size:
            wanted = size - self.credit[process]
            for name, _ in self.accounting.oldest_kept(self.accounting.missing(wanted)):
                self.accounting.dropped(name, 0, self.kept.pop(name)[1])
            for name, _, _ in self.accounting.victims(self.accounting.missing(wanted)):
                self.accounting.spilled(name)
                self.spilled[name] = self.shared.pop(name)
            if self.accounting.missing(wanted):
                return
            granted = self.accounting.grant(process, wanted)
            assert granted >= wanted
            self.credit[process] += granted
        self.count += 1
        self.credit[process] -= size
        self.shared[f"o{self.count}"] = (size, process)
        self.accounting.sealed(f"o{self.count}", size, process)

    @precondition(lambda self: self.shared)
    @rule(data=st.data(), recycles=st.booleans())
    def drop(self, data, recycles):
        name = data.draw(st.sampled_from(sorted(self.shared)))
        size, process = self.shared.pop(name)
        self.accounting.dropped(name, size if recycles else 0, process)
        self.credit[process] += size if recycles else 0

    @precondition(lambda self: self.shared)
    @rule(data=st.data())
    def keep(self, data):
        name = data.draw(st.sampled_from(sorted(self.shared)))
        self.kept[name] = self.shared.pop(name)
        self.accounting.kept(name, self.kept[name][1])

    @precondition(lambda self: self.kept)
    @rule(data=st.data())
    def use_again(self, data):
        name = data.draw(st.sampled_from(sorted(self.kept)))
        size, process = self.kept.pop(name)
        self.accounting.dropped(name, size, process)
        self.credit[process] += size

    @precondition(lambda self: self.spilled)
    @rule(data=st.data())
    def drop_spilled(self, data):
        name = data.draw(st.sampled_from(sorted(self.spilled)))
        _, process = self.spilled.pop(name)
        self.accounting.dropped(name, 0, process)

    @rule(process=who)
    def die(self, process):
        self.accounting.process_gone(process)
        self.credit[process] = 0

    @invariant()
    def sums_agree(self):
        shared = sum(size for size, _ in self.shared.values())
        assert self.accounting.shared_bytes == shared
        kept = sum(size for size, _ in self.kept.values())
        assert self.accounting.kept_bytes == kept
        assert self.accounting.used_bytes == shared + kept + sum(self.credit.values())
        assert self.accounting.used_bytes <= CAPACITY
        assert self.accounting.spilled_bytes == sum(size for size, _ in self.spilled.values())


Accounts.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=30)
TestAccounts = Accounts.TestCase
