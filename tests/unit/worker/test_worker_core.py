"""A worker whose owner makes a second connection before the worker has noticed the end of the first
one.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.present import present

from phalanx.protocol.messages import Consumed, Lease, Leaving, Returned, Task
from phalanx.protocol.node_messages import WorkerLeaving
from phalanx.worker.context import TaskContext
from phalanx.worker.core import SPENT, Definition, WorkerCore

ME, OWNER = b"nodeaa" + b"w" * 10, b"nodebb" + b"o" * 10


class Connection:
    peer = OWNER

    def __init__(self):
        self.sent = []
        self.closed = False

    def post(self, message):
        self.sent.append(message)

    send = post


class Worker:
    """Records the effects of a worker. The worker's tasks run until the test ends them."""

    def __init__(self):
        self.interrupted = []
        self.moved = []
        unused: Any = None
        effects: Any = self  # of a worker that runs no actor and no other job
        self.node = Connection()
        self.core = WorkerCore(ME, self.node, unused, effects, clock=lambda: 0.0, wall=lambda: 0.0)

    def wake(self):
        pass

    def progress(self, context):
        self.moved.append(context.number)

    def interrupt(self, context):
        self.interrupted.append(context.number)

    def comes(self, connection, number):
        self.core.handle(connection, Lease(1, b"job", {"CPU": 1.0}, {}))
        self.core.handle(connection, Task(number, b"f", b"", []))

    def begins(self):
        connection, task = present(self.core.tasks.take())
        lease = self.core.lease_of(connection)
        self.core.running = TaskContext(OWNER, task.number, "f", 0, lease, False)
        self.core.running_for = connection


@pytest.fixture
def worker():
    return Worker()


def test_work_of_the_second_connection_survives_the_end_of_the_first(worker):
    first, second = Connection(), Connection()
    worker.comes(first, 1)
    worker.comes(second, 2)
    worker.comes(second, 3)
    worker.core.tasks.rotate(-1)
    worker.begins()
    worker.core.connection_lost(first)
    assert not worker.interrupted
    assert [task.number for _, task in worker.core.tasks] == [3]
    assert worker.core.lease_of(second).job == b"job"
    assert not worker.core.lease_of(first).job


def test_work_of_a_connection_ends_with_it(worker):
    only = Connection()
    worker.comes(only, 1)
    worker.comes(only, 2)
    worker.begins()
    worker.core.connection_lost(only)
    assert worker.interrupted == [1]
    assert not worker.core.tasks


def test_who_sends_tasks_to_a_process_that_is_about_to_end_hears_so(worker):
    first, late = Connection(), Connection()
    definition = Definition("f", b"", max_calls=1)
    assert worker.core.ended(first, definition, 0.1)
    assert (first.sent, worker.core.stopping) == ([Leaving()], SPENT)
    assert worker.node.sent == [WorkerLeaving(SPENT)]
    worker.comes(late, 2)
    worker.comes(late, 3)
    worker.core.refuse_tasks()
    assert late.sent == [Leaving(), Returned([2, 3])]
    assert not worker.core.tasks


def test_a_stream_whose_reader_is_gone_waits_for_it_no_longer(worker):
    """The stream belongs to a call of an actor. No interrupt ends such a call, and all other calls
    would wait for it.
    """
    first, second = Connection(), Connection()
    before, again = (TaskContext(OWNER, 7, "f", attempt, worker, True) for attempt in (0, 1))
    worker.core.streams.begin(first, 7, before)
    worker.core.streams.begin(second, 7, again)
    worker.core.handle(second, Consumed(7, 2))
    assert (before.consumed, again.consumed) == (0, 2)
    worker.core.connection_lost(first)
    assert (before.is_cancelled, again.is_cancelled) == (True, False)
    assert worker.moved == [7, 7]


def test_a_stream_that_begins_when_its_reader_is_gone_waits_for_nobody(worker):
    """The call was sent, and its connection ended while it waited for another call to finish."""
    connection = Connection()
    connection.closed = True
    worker.core.connection_lost(connection)
    late = TaskContext(OWNER, 7, "f", 0, worker, True)
    worker.core.streams.begin(connection, 7, late)
    assert late.is_cancelled
