"""Calls in bursts are queued, sent, answered and removed as if each had a record of its own."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.effort import examples

from phalanx.objects.serialization import pack_call, unpack_calls
from phalanx.owner.bursts import MOST_CALLS, Unfinished
from phalanx.owner.pipeline import Pipeline
from phalanx.owner.tasks.records import ClassKey, FunctionRecord, PendingTask, TaskBurst, Template
from phalanx.owner.work_queue import WorkQueue

KEY = ClassKey((("CPU", 1.0),), b"", b"", "", 0, False)
TEMPLATE = Template(
    function=FunctionRecord(b"f", "f", b""), key=KEY, name="f", returns=1, max_retries=3
)


class Lines:
    """A queue and a pipeline of tasks."""

    def __init__(self) -> None:
        self.unfinished: Unfinished[PendingTask, TaskBurst] = Unfinished()
        self.queue: WorkQueue[PendingTask, TaskBurst] = WorkQueue()
        self.sent: Pipeline[PendingTask, TaskBurst] = Pipeline()
        self.count = 0

    def call(self) -> int:
        """Queue one more call in a burst."""
        self.count += 1
        burst = self.queue.open
        if burst is None:
            burst = TaskBurst(self.unfinished, self.count, None, TEMPLATE)
            self.unfinished.add(burst)
            self.queue.begin(burst)
        ref: Any = f"ref {self.count}"
        self.queue.add(burst, self.count, (self.count,), ref, float(self.count))
        return self.count

    def task(self) -> int:
        """Queue one more task with a record."""
        self.count += 1
        ref: Any = f"ref {self.count}"
        task = PendingTask(self.count, TEMPLATE, pack_call((self.count,)), None, None, [ref])
        task.created = float(self.count)
        self.unfinished[task.number] = task
        self.queue.append(task)
        return self.count

    def send(self, count: int) -> None:
        taken = self.queue.take(count)
        if isinstance(taken, TaskBurst):
            self.sent.add(taken)
        else:
            self.sent[taken.number] = taken


def numbers_of(line: WorkQueue[PendingTask, TaskBurst]) -> list[int]:
    found: list[int] = []
    for entry in line:
        count = len(entry) if isinstance(entry, TaskBurst) else 1
        found += range(entry.number, entry.number + count)
    return found


def is_whole(task: PendingTask) -> bool:
    """Whether a record has all arguments, references and times of its call."""
    ref: Any = f"ref {task.number}"
    args = pack_call((task.number,))
    return (task.args, task.refs, task.created) == (args, [ref], float(task.number))


class InAnyOrder(RuleBasedStateMachine):
    """Checks that queue and pipeline always have the same numbers as two plain lists after the same
    steps.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lines = Lines()
        self.queued: list[int] = []
        self.sent: list[int] = []

    @rule(count=st.integers(1, 9))
    def call(self, count: int) -> None:
        self.queued += [self.lines.call() for _ in range(count)]

    @rule()
    def task(self) -> None:
        self.queued.append(self.lines.task())

    @rule()
    def seal(self) -> None:
        for entry in self.lines.queue:
            if isinstance(entry, TaskBurst) and entry is not self.lines.queue.open:
                entry.seal()

    @precondition(lambda self: self.queued)
    @rule(count=st.integers(1, 7))
    def send(self, count: int) -> None:
        before = self.lines.sent.size
        self.lines.send(count)
        taken = self.lines.sent.size - before
        assert 1 <= taken <= count
        self.sent += self.queued[:taken]
        del self.queued[:taken]

    @precondition(lambda self: self.queued)
    @rule()
    def take_first(self) -> None:
        task = self.lines.queue.popleft()
        assert task.number == self.queued.pop(0)
        assert is_whole(task)
        self.lines.unfinished.pop(task.number)

    @precondition(lambda self: self.queued)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(self.queued))
        self.queued.remove(number)
        burst = self.lines.unfinished.burst_of(number)
        if burst is not None:
            self.lines.queue.split(burst, number)
        task = self.lines.unfinished.pop(number)
        assert task is not None
        assert is_whole(task)
        self.lines.queue.remove(task)

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def answer_one(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(self.sent))
        self.sent.remove(number)
        task = self.lines.sent.pop(number)
        assert task is not None
        assert is_whole(task)
        self.lines.unfinished.pop(number)

    @precondition(lambda self: self.sent)
    @rule(data=st.data(), most=st.integers(1, 6))
    def answer_many(self, data: st.DataObject, most: int) -> None:
        first = data.draw(st.sampled_from(self.sent))
        done = self.lines.sent.finish(first, most)
        if done is None:
            return
        ended = list(range(first, first + len(done)))
        assert 1 <= len(ended) <= most
        refs: list[Any] = [f"ref {number}" for number in ended]
        assert done.refs == refs
        assert list(done.created) == [float(number) for number in ended]
        self.sent = [number for number in self.sent if number not in ended]

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def look_at_one(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(self.sent))
        assert self.lines.sent[number].number == number

    @rule()
    def lose(self) -> None:
        tasks = self.lines.sent.take_all()
        assert [task.number for task in tasks] == self.sent
        assert all(map(is_whole, tasks))
        for task in reversed(tasks):
            self.lines.queue.appendleft(task)
        self.queued = self.sent + self.queued
        self.sent = []

    @invariant()
    def same_as_numbers(self) -> None:
        lines = self.lines
        assert numbers_of(lines.queue) == self.queued
        assert list(lines.sent) == self.sent
        assert [task.number for task in lines.sent.values()] == self.sent
        assert (len(lines.queue), len(lines.sent)) == (len(self.queued), len(self.sent))
        assert lines.sent.first == (self.sent[0] if self.sent else None)
        unfinished = sorted([*self.queued, *self.sent])
        assert sorted(task.number for task in lines.unfinished.values()) == unfinished
        assert len(lines.unfinished) == len(unfinished)
        for number in range(-2, lines.count + 3):
            assert (number in lines.unfinished) == (number in unfinished)
            assert (number in lines.sent) == (number in self.sent)


InAnyOrder.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=30)
TestInAnyOrder = InAnyOrder.TestCase


def test_arguments_travel_in_one_pickle() -> None:
    lines = Lines()
    for _ in range(5):
        lines.call()
    burst = lines.queue.take(5)
    assert isinstance(burst, TaskBurst)
    assert unpack_calls(burst.packed()) == [(1,), (2,), (3,), (4,), (5,)]


def test_a_full_burst_takes_no_more_calls() -> None:
    lines = Lines()
    for _ in range(MOST_CALLS + 1):
        lines.call()
    assert [len(burst) for burst in lines.unfinished.bursts] == [MOST_CALLS, 1]


@pytest.mark.parametrize("number", [-7, -1, 0, 9, 1 << 70])
def test_numbers_that_were_never_given_are_not_found(number: int) -> None:
    """Another process may send a number that was never given to a call."""
    lines = Lines()
    for _ in range(8):
        lines.call()
    lines.send(6)
    assert lines.sent.pop(number) is None
    assert lines.sent.finish(number, 3) is None
    assert lines.unfinished.get(number) is None
    assert (lines.sent.size, lines.queue.size) == (6, 2)
