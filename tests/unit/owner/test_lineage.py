"""The finished tasks that an owner remembers: for how long, how many, and which of them a lost
result needs.
"""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.effort import examples

from phalanx import errors
from phalanx.objects import failures
from phalanx.objects.file_hold import FileHold
from phalanx.objects.reference import make_ref
from phalanx.owner.objects.lineage import (
    RECORD_BYTES,
    Lineage,
    LostHold,
    Remembered,
    Unmakeable,
    lost_error,
    no_retries,
    put_by,
)
from phalanx.owner.objects.reconstruction import Reconstruction
from phalanx.protocol.messages import FAILED, SHARED, Value

ME, OTHER = b"me" * 8, b"you!" * 4


class Recipe:
    """A task that does nothing."""

    returns, option = 1, "max_retries"

    def __init__(self, name="task f", allowed=3, refusal=""):
        self.name, self.allowed = name, allowed
        self._refusal = refusal

    def refusal(self):
        return self._refusal

    def renew(self, number, args):
        raise AssertionError("nothing is run again here")


class Hold:
    """Stands for a reference to a file in shared memory."""

    def __init__(self, lineage=None):
        self.lineage = lineage


class Handle:
    """Stands for the reference to an actor."""

    actor = b"a"


def number_of(task):
    return task << 32 | 1


def large(task, lineage=None):
    ref = make_ref(ME, number_of(task))
    ref._value = Value(SHARED, b"file", size=1 << 20)
    ref._hold = Hold(lineage)
    return ref


def small(task, data=b"small"):
    ref = make_ref(ME, number_of(task))
    ref._value = data
    return ref


def remember(lineage, task, inputs=None, nested=None, args=b""):
    work = SimpleNamespace(number=task, args=args, inputs=inputs, retries=3, attempt=0)
    work.pins = None if nested is None else [None, nested]
    return lineage.remember(ME, work, Recipe(f"task t{task}"))


def result(lineage, task, *inputs, **more):
    """Return the large result of a task that is remembered."""
    record = remember(lineage, task, inputs, **more)
    ref = large(task, record)
    record.made(ref)
    return ref


def inputs_again(ref):
    exported: list[Any] = []
    again = [source.revive(exported.append) for source in ref._hold.lineage.inputs]
    return again, exported


class Model(RuleBasedStateMachine):
    """Makes tasks and drops references in any order, and compares the lineage with a plain
    graph.
    """

    LIMIT = 8 * RECORD_BYTES

    def __init__(self):
        super().__init__()
        self.lineage = Lineage(self.LIMIT)
        self.held = {}
        """Task -> the reference to its result."""
        self.inputs = {}
        """Task -> (the tasks whose large results it took, bytes kept); forgotten ones: none."""
        self.count = 0

    @rule(data=st.data(), is_large=st.booleans(), size=st.integers(0, RECORD_BYTES * 2))
    def run(self, data, is_large, size):
        self.count += 1
        chosen = (
            data.draw(st.lists(st.sampled_from(sorted(self.held)), max_size=3, unique=True))
            if self.held
            else []
        )
        refs = [self.held[task] for task in chosen]
        if not is_large:
            self.held[self.count] = small(self.count)
            return
        self.held[self.count] = result(self.lineage, self.count, *refs, args=b"x" * size)
        from_small = sum(len(r._value) for r in refs if type(r._value) is bytes)
        sources = [task for task in chosen if task in self.inputs]
        self.inputs[self.count] = (sources, RECORD_BYTES + size + from_small)
        self._forget_oldest()

    def _forget_oldest(self):
        for task in sorted(self._living()):
            if self._kept() <= self.LIMIT:
                return
            self.inputs[task] = ([], 0)

    def _living(self):
        """Return the large results that are referenced, and those that they were made from."""
        found, left = set(), [task for task in self.held if task in self.inputs]
        while left:
            task = left.pop()
            if task not in found:
                found.add(task)
                left.extend(self.inputs[task][0])
        return found

    def _kept(self):
        return sum(self.inputs[task][1] for task in self._living())

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def drop(self, data):
        del self.held[data.draw(st.sampled_from(sorted(self.held)))]

    @precondition(lambda self: any(task in self.inputs for task in self.held))
    @rule(data=st.data())
    def revive(self, data):
        task = data.draw(st.sampled_from(sorted(t for t in self.held if t in self.inputs)))
        record = self.held[task]._hold.lineage
        if record.why_not() is not None:
            assert (record.inputs, record.args) == (None, b"")
            assert not self.inputs[task][1]
            return
        again, exported = inputs_again(self.held[task])
        second, more = inputs_again(self.held[task])
        numbers = [ref._number for ref in again]
        held = {ref._number: ref for ref in self.held.values() if type(ref._value) is not bytes}
        for ref, twin in zip(again, second, strict=True):
            if type(ref._value) is bytes:
                continue
            assert ref is twin, "there are two references to one object"
            assert held.get(ref._number, ref) is ref
            assert ref._number in held or type(ref._hold) is LostHold
        assert {ref._number for ref in exported} <= set(numbers)
        assert all(type(ref._value) is bytes for ref in more)

    @invariant()
    def keeps_what_the_graph_says(self):
        assert self.lineage.kept_bytes == self._kept() <= self.LIMIT
        remembered = sum(1 for task in self._living() if self.inputs[task][1])
        assert len(self.lineage) == remembered


Model.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40)
TestModel = Model.TestCase


def test_a_living_input_is_itself_and_a_freed_one_comes_back_as_lost():
    lineage = Lineage()
    kept, freed = result(lineage, 1), result(lineage, 2)
    total = result(lineage, 3, kept, freed)
    del freed
    (left, right), exported = inputs_again(total)
    assert left is kept
    assert (right._owner, right._number, right._value, right._task) == (ME, number_of(2), None, 2)
    assert right._hold.lineage.recipe.name == "task t2"
    assert exported == [right]


def test_what_has_no_lineage():
    lineage = Lineage()
    foreign = make_ref(OTHER, 5)
    pending = make_ref(ME, number_of(6))
    put, handle = large(7), small(8)
    handle._hold = Handle()
    total = result(lineage, 9, foreign, pending, put, handle)
    again, exported = inputs_again(total)
    assert again == [foreign, pending, put, handle]
    assert exported == []
    del put, handle, again
    (_, _, put, handle), exported = inputs_again(total)
    with pytest.raises(errors.ObjectLostError, match=f"put by process {ME.hex()}.*freed it"):
        raise failures.load(put._value.data)
    with pytest.raises(errors.ObjectLostError, match="its actor has gone"):
        raise failures.load(handle._value.data)
    assert exported == [put, handle]


def put_file(task, size):
    ref = large(task)
    ref._hold = FileHold(SimpleNamespace(dropped=[]), "file", size, None)
    return ref


def test_what_nothing_can_make_again_is_kept_while_there_is_room():
    lineage = Lineage(limit_bytes=1 << 20)
    put = put_file(1, 300_000)
    totals = [result(lineage, 2, put), result(lineage, 3, put)]  # it counts once
    newer = put_file(4, 700_000)
    totals.append(result(lineage, 5, newer))
    del put, newer
    gc.collect()
    found = [inputs_again(total)[0][0]._value.kind for total in totals]
    assert found == [SHARED, SHARED, SHARED]
    totals.append(result(lineage, 6, put_file(7, 200_000)))  # the oldest goes for this one
    found = [inputs_again(total)[0][0]._value.kind for total in totals]
    assert found == [FAILED, FAILED, SHARED, SHARED]
    survivor = weakref.ref(inputs_again(totals[2])[0][0])
    del totals
    gc.collect()
    assert survivor() is None, "nothing that was made of it is left"


def test_a_small_input_is_kept_with_the_lineage_of_what_it_refers_to():
    lineage = Lineage()
    inner = result(lineage, 1)
    outer = small(2, b"a list with a reference")
    outer._inner = [inner]
    total = result(lineage, 3, outer)
    del inner, outer
    (outer,), exported = inputs_again(total)
    assert outer._value == b"a list with a reference"
    (inner,) = outer._inner
    assert type(inner._hold) is LostHold
    assert exported == [inner, outer]


def test_what_was_not_there_yet_is_kept_until_it_is():
    lineage = Lineage()
    inner = make_ref(ME, number_of(1))
    total = result(lineage, 2, nested=[inner])
    (source,) = total._hold.lineage.nested
    assert source.revive(lambda ref: None) is inner
    record = remember(lineage, 1)
    record.made(inner)
    inner._value, inner._hold = Value(SHARED, b"file", size=1), Hold(record)
    for waiter in inner._waiters:
        waiter.notify()
    inner._waiters = None
    assert source.revive(lambda ref: None) is inner
    del inner
    gc.collect()
    assert type(source.revive(lambda ref: None)._hold) is LostHold


def test_references_inside_arguments_are_had_again_too():
    lineage = Lineage()
    inner = result(lineage, 1)
    total = result(lineage, 2, nested=[inner])
    del inner
    (source,) = total._hold.lineage.nested
    assert type(source.revive(lambda ref: None)._hold) is LostHold


def test_the_oldest_is_forgotten_first_and_says_so():
    lineage = Lineage(3 * (RECORD_BYTES + 1000))
    refs = [result(lineage, task, args=b"x" * 1000) for task in range(1, 6)]
    reasons = [ref._hold.lineage.why_not() for ref in refs]
    assert [reason and reason.kind for reason in reasons] == [
        "evicted",
        "evicted",
        None,
        None,
        None,
    ]
    assert "task t1, which made it, was forgotten" in reasons[0].why
    assert (len(lineage), lineage.evicted) == (3, 2)


def test_a_long_lineage_goes_without_recursion():
    lineage = Lineage(1 << 40)
    ref = result(lineage, 1)
    for task in range(2, 10_000):
        ref = result(lineage, task, ref)
    assert len(lineage) == 9_999
    del ref
    gc.collect()
    assert (len(lineage), lineage.kept_bytes) == (0, 0)


@pytest.mark.parametrize(("retries", "allowed"), [(0, 0), (2, 3)])
def test_each_run_takes_a_retry(retries, allowed):
    recipe = Recipe(allowed=allowed)
    record = Remembered(ME, 1, recipe, Lineage()._released)
    record.retries = retries
    for attempt in range(1, retries + 1):
        assert record.why_not() is None
        record.charge()
        assert (record.attempt, record.retries) == (attempt, retries - attempt)
    assert record.why_not() == no_retries(recipe)


def test_without_a_limit_runs_are_only_counted():
    record = Remembered(ME, 1, Recipe(allowed=-1), Lineage()._released)
    record.retries = -1
    for attempt in range(1, 11):
        record.charge()
        assert record.attempt == attempt
    assert record.why_not() is None


def test_a_dead_actor_makes_nothing_again():
    refusal = "cannot run again: its actor is dead."
    record = Remembered(ME, 1, Recipe("call A.m", refusal=refusal), Lineage()._released)
    record.retries = 3
    why = f"call A.m, which made it, {refusal}"
    assert record.why_not() == Unmakeable("actor", why)


@pytest.mark.parametrize(
    ("reason", "error", "rays_word"),
    [
        (put_by(ME), errors.ObjectReconstructionFailedError, "PUT"),
        (
            no_retries(Recipe(allowed=0)),
            errors.ObjectReconstructionFailedError,
            "RETRIES_DISABLED",
        ),
        (
            no_retries(Recipe(allowed=3)),
            errors.ObjectReconstructionFailedMaxAttemptsExceededError,
            "MAX_ATTEMPTS_EXCEEDED",
        ),
        (
            Unmakeable("evicted", ""),
            errors.ObjectReconstructionFailedLineageEvictedError,
            "LINEAGE_EVICTED",
        ),
    ],
)
def test_the_error_says_what_was_lost_and_why(reason, error, rays_word):
    made = lost_error(ME, number_of(4), reason)
    assert type(made) is error
    assert isinstance(made, errors.ObjectLostError)
    assert made.object_ref_hex == ME.hex() + "0000000000000004" + "00000001"
    assert str(made) == (
        f"Object {made.object_ref_hex} is lost and cannot be made again: {reason.why} "
        f"[ObjectReconstructionFailedError: OBJECT_UNRECONSTRUCTABLE_{rays_word}]"
    )
    placed = lost_error(ME, number_of(4), reason, "(actor call) | f.py:g:7")
    assert str(placed) == f"{made} It was made at (actor call) | f.py:g:7"


def test_what_a_cancelled_generator_gave_is_not_made_again():
    runs: list[Any] = []
    unused: Any = SimpleNamespace()
    machine = Reconstruction(ME, unused, unused, runs.append)
    work: Any = SimpleNamespace(
        number=1, recipe=Recipe, retries=3, attempt=0, refs=[], args=b"", inputs=None, pins=None
    )
    work.stream = object()
    record = machine.maker(work, (Value(SHARED, b"file"),))
    assert isinstance(record, Remembered)
    assert record.why_not() is None
    machine.cancelled(work)
    machine.finished(work)
    assert record.why_not() == Unmakeable("cancelled", "task f, which made it, was cancelled.")
    assert machine.lineage.kept_bytes == 0


def test_what_was_cancelled_after_it_had_ended_is_not_made_again():
    lineage = Lineage()
    work: Any = SimpleNamespace(number=1, retries=3, attempt=0, args=b"", inputs=None, pins=None)
    record = lineage.remember(ME, work, Recipe())
    lineage.cancelled(2)
    assert record.why_not() is None
    lineage.cancelled(1)
    lineage.cancelled(1)
    assert record.why_not() == Unmakeable("cancelled", "task f, which made it, was cancelled.")
    assert lineage.kept_bytes == 0


class StreamRecipe(Recipe):
    """A generator of any number of items."""

    returns = -1

    def renew(self, number, args):
        return SimpleNamespace(number=number, args=args, refs=[], stream=None)


class Objects:
    """Records the objects that are completed."""

    def __init__(self):
        self.completed = []

    def forget_value(self, ref):
        ref._value = None

    def complete(self, ref, value):
        self.completed.append((ref._number, value))
        ref._value = value


def test_an_item_that_gets_lost_while_its_generator_runs_for_the_last_time_waits_for_it():
    runs: list[Any] = []
    objects: Any = Objects()
    references: Any = SimpleNamespace(export=lambda ref: None)
    machine = Reconstruction(ME, references, objects, runs.append)
    work: Any = SimpleNamespace(
        number=1, recipe=StreamRecipe, retries=1, attempt=0, refs=[], args=b"", inputs=None
    )
    work.pins, work.stream = None, object()
    record = machine.maker(work, (Value(SHARED, b"file"),))
    assert isinstance(record, Remembered)
    items = [make_ref(ME, 1 << 32 | index) for index in (1, 2)]
    for item in items:
        item._value, item._hold = Value(SHARED, b"file"), Hold(record)
        record.made(item)
    machine.finished(work)
    for item in items:
        machine.lost(item, "file")
        machine.need(item)
    assert len(runs) == 1
    assert objects.completed == []
    assert [type(item._hold) for item in items] == [LostHold, LostHold]


class RunRecipe(Recipe):
    """A task that may be run again."""

    def renew(self, number, args):
        return SimpleNamespace(number=number, args=args, stream=None)


def test_making_again_what_was_let_go_takes_a_retry():
    runs: list[Any] = []
    references: Any = SimpleNamespace(export=lambda ref: None)
    objects: Any = Objects()
    machine = Reconstruction(ME, references, objects, runs.append)
    work: Any = SimpleNamespace(number=1, retries=3, attempt=0, args=b"", inputs=None, pins=None)
    record = machine.lineage.remember(ME, work, RunRecipe())
    for _ in range(2):
        machine.need(record.revive(number_of(1)))
        machine.finished(runs[-1])
    assert [(run.attempt, run.retries) for run in runs] == [(1, 2), (2, 1)]


@pytest.fixture
def family():
    """Return a function `remember(number, *made_of)`. It remembers a task with one result, which is
    made of the results `made_of`, and returns the reference to the new result. `.machine` is the
    machine of the tasks, and `.runs` has the numbers of the tasks that ran again, in order.
    """
    runs: list[int] = []
    objects: Any = Objects()
    references: Any = SimpleNamespace(export=lambda ref: None)
    machine = Reconstruction(ME, references, objects, lambda work: run_again(work))

    def run_again(work):
        runs.append(work.number)
        for ref in work.inputs or ():
            machine.need(ref)

    def remember(number, *made_of):
        work: Any = SimpleNamespace(number=number, retries=3, attempt=0, args=b"")
        work.inputs, work.pins = list(made_of), None
        record = machine.lineage.remember(ME, work, RunRecipe())
        ref = make_ref(ME, number_of(number))
        ref._value, ref._hold = Value(SHARED, b"file"), Hold(record)
        record.made(ref)
        return ref

    return SimpleNamespace(machine=machine, runs=runs, remember=remember)


def test_what_was_let_go_is_made_once_for_all_that_is_lost_and_was_made_of_it(family):
    root = family.remember(1)
    children = [family.remember(2 + i, root) for i in range(3)]
    stranger = family.remember(9)
    del root
    for ref in [*children, stranger]:
        family.machine.lost(ref, "file")
    family.machine.need(children[1])
    assert sorted(family.runs) == [1, 2, 3, 4]
    family.machine.need(children[0])
    family.machine.need(stranger)
    assert sorted(family.runs) == [1, 2, 3, 4, 9]


def test_an_ancestor_far_up_is_made_once_too(family):
    root = family.remember(1)
    grandchildren = []
    for i in range(3):
        middle = family.remember(10 + i, root)
        grandchildren.append(family.remember(20 + i, family.remember(30 + i), middle))
    del root, middle
    for ref in grandchildren:
        family.machine.lost(ref, "file")
    family.machine.need(grandchildren[2])
    assert sorted(family.runs) == [1, 10, 11, 12, 20, 21, 22, 30, 31, 32]


def test_what_is_still_referenced_brings_nothing_else_back(family):
    root = family.remember(1)
    children = [family.remember(2 + i, root) for i in range(3)]
    for ref in [root, *children]:
        family.machine.lost(ref, "file")
    family.machine.need(children[1])
    assert sorted(family.runs) == [1, 3]
