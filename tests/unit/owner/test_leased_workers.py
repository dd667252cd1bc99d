"""Which leased worker a message is about, and when a worker is gone for good."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.present import present
from tests.unit.owner.small_world import template

from phalanx.owner.tasks.leased_workers import LeasedWorkers
from phalanx.owner.tasks.leases import TaskMachine
from phalanx.owner.tasks.records import PendingTask
from phalanx.protocol.messages import Unlease
from phalanx.protocol.node_messages import Granted, KillWorker, LeaseReturned, WorkerDied

HERE, ELSEWHERE, GONE = b"here-worker", b"away-worker", b"here-gone"


class End:
    """The owner's end of a connection to a worker."""

    def __init__(self, peer):
        self.peer = peer
        self.is_dialling = False
        self.refusal = ""


class Owner:
    """A task machine whose effects are sent to the node or logged."""

    def __init__(self, tasks=1, max_retries=3):
        self.sent: list[Any] = []
        self.log, self.ends = [], {}
        self.machine = TaskMachine(self)
        peers: Any = self
        self.node = SimpleNamespace(post=self.sent.append, send=self.sent.append)
        self.workers = LeasedWorkers(self.machine, peers, self, self.node)
        kind = template("f", max_retries)
        for number in range(1, tasks + 1):
            task = PendingTask(number, kind, b"", None, None, [])
            self.machine.pending[number] = task
            self.machine.enqueue(task)
        self.scheduling_class = self.machine.class_of(kind.key)

    def peer(self, process):
        return None if process == GONE else self.ends.setdefault(process, End(process))

    def is_here(self, process):
        return process.startswith(b"here")

    def post(self, connection, message):
        self.log.append((connection.peer, message))

    def flush_later(self, connection):
        pass

    def send_tasks(self, worker, tasks, urgent):
        self.log += [f"send {task.number}" for task in tasks]

    def recall(self, worker):
        self.log.append("recall")

    def want_workers(self, scheduling_class, count):
        pass

    def return_lease(self, worker, reusable):
        self.workers.give_back(worker, reusable)

    def fail(self, task, kind, reason):
        self.log.append(f"fail {task.number}: {reason}")

    def attempt_lost(self, task):
        pass

    def requeued(self, task, reason):
        self.log.append(f"again {task.number}: {reason}")

    def granted(self, process, lease=1, class_number=None):
        number = self.scheduling_class.number if class_number is None else class_number
        worker = self.workers.granted(Granted(number, lease, process, {}, {}), self.machine.now)
        if worker is not None:
            self.machine.pump(worker.scheduling_class)
        return worker


@pytest.mark.parametrize(
    ("process", "known", "reusable"), [(GONE, True, False), (HERE, False, True)]
)
def test_what_cannot_be_used_goes_back(process, known, reusable):
    owner = Owner()
    assert owner.granted(process, class_number=None if known else 99) is None
    assert owner.sent == [LeaseReturned(1, reusable)]
    assert not owner.workers


@pytest.mark.parametrize("died_first", [True, False])
def test_a_worker_is_gone_once_its_last_results_are_in_and_its_end_is_told(died_first):
    owner = Owner()
    owner.granted(HERE)
    steps = [
        lambda: owner.workers.worker_died(WorkerDied(HERE, "it crashed", "crashed")),
        lambda: owner.workers.connection_ended(owner.ends[HERE]),
    ]
    first, second = steps if died_first else steps[::-1]
    first()
    assert owner.log == ["send 1"]
    second()
    assert owner.log == ["send 1", "again 1: it crashed"]
    assert owner.sent == []
    assert not owner.workers


def test_a_worker_elsewhere_is_ended_before_others_do_its_work():
    owner = Owner()
    owner.granted(ELSEWHERE, lease=7)
    owner.workers.connection_ended(owner.ends[ELSEWHERE])
    assert owner.sent == [KillWorker(7)]
    assert owner.log == ["send 1"]
    owner.workers.worker_died(WorkerDied(ELSEWHERE, "it was ended", "killed"))
    assert owner.log == ["send 1", "again 1: it was ended"]


def unreached(owner: Owner) -> None:
    """Make the worker unreachable, as when a gateway on the way is stopped."""
    owner.granted(ELSEWHERE, lease=7)
    end = owner.ends.pop(ELSEWHERE)
    end.is_dialling, end.refusal = True, "its gateway did not answer within 5 s"
    owner.workers.connection_ended(end)


@pytest.mark.parametrize("max_retries", [0, 3, -1])
def test_what_was_never_sent_is_no_attempt(max_retries):
    """In an earlier version a gateway that was stopped for six seconds made tasks fail that may run
    only once.
    """
    owner = Owner(tasks=2, max_retries=max_retries)
    unreached(owner)
    assert owner.sent == [LeaseReturned(7)], "the worker may be used by others"
    assert owner.log[1:] == ["again 1: not sent: its gateway did not answer within 5 s"]
    assert not owner.workers
    owner.machine.tick(owner.machine.now + 1.0)
    owner.log.clear()
    worker = owner.granted(HERE)
    assert sorted(worker.inflight) == [1] or sorted(worker.inflight) == [2]
    tasks = [*worker.inflight.values(), *owner.machine.pending.values()]
    assert {task.retries for task in tasks} == {max_retries}


def test_what_was_cancelled_meanwhile_does_not_run():
    owner = Owner()
    owner.granted(ELSEWHERE, lease=7)
    worker = owner.workers._by_connection[owner.ends[ELSEWHERE]][0]
    worker.inflight[1].cancelled = "cancelled"
    end = owner.ends.pop(ELSEWHERE)
    end.is_dialling = True
    owner.workers.connection_ended(end)
    assert owner.log == ["send 1", "fail 1: "]
    assert owner.machine.resting == []


def test_what_cannot_be_sent_for_long_counts_as_lost():
    owner = Owner()
    for _ in range(30):
        unreached(owner)
        owner.machine.tick(owner.machine.now + 1.0)
        if KillWorker(7) in owner.sent:
            break
    assert 20.0 < owner.machine.now < 25.0


def test_with_the_node_gone_nobody_is_left_to_say_why():
    owner = Owner(max_retries=0)
    owner.granted(ELSEWHERE)
    owner.workers.connection_ended(owner.ends[ELSEWHERE], is_node_gone=True)
    assert owner.log == ["send 1", "fail 1: the node is gone"]
    assert owner.sent == []


def test_results_and_what_comes_back_are_of_the_worker_that_had_them():
    owner = Owner(tasks=2)
    one, two = owner.granted(HERE, 1), owner.granted(ELSEWHERE, 2)
    here, away = one.connection, two.connection
    assert owner.workers.finished(away, 1, 0.0) is None
    assert present(owner.workers.running(here, 1)).number == 1
    assert owner.workers.returned(away, [1]) == []
    assert present(owner.workers.finished(here, 1, 0.0)).number == 1
    assert owner.workers.returned(away, [2]) == [2]


def test_a_lease_that_goes_back_is_told_to_worker_and_node():
    owner = Owner()
    worker = owner.granted(HERE, 4)
    owner.workers.finished(worker.connection, 1, 0.0)
    owner.workers.leaving(worker.connection)
    assert owner.log[-1] == (HERE, Unlease())
    assert owner.sent == [LeaseReturned(4, False)]
    assert not owner.workers
