"""Tasks with a time limit, and the errors of tasks that ended without raising an exception."""

from __future__ import annotations

from typing import Any

import pytest
from tests.present import present
from tests.unit.owner.small_world import template
from tests.unit.owner.test_leased_workers import HERE, Owner

from phalanx import errors
from phalanx.owner.tasks.failures import error_of
from phalanx.owner.tasks.records import PendingTask
from phalanx.owner.tasks.timeouts import KILL_GRACE_S, Timeouts
from phalanx.owner.work import FORCED, TIMED_OUT
from phalanx.protocol.messages import Cancel
from phalanx.protocol.node_messages import KillWorker, WorkerDied


class Limited(Owner):
    """An owner whose first task is running on a worker and may run until second 10."""

    def __init__(self, tasks: int = 1) -> None:
        super().__init__(tasks)
        node: Any = self.node
        self.timeouts = Timeouts(self.machine, self, node, self.fail)
        self.granted(HERE, lease=7)
        self.task = self.machine.pending[1]
        self.timeouts.limit(self.task, 10.0)
        self.log.clear()


def test_a_task_is_asked_to_stop_once_and_then_ended_with_its_worker():
    owner = Limited()
    owner.timeouts.tick(9.9)
    assert owner.log == []
    owner.timeouts.tick(10.0)
    owner.timeouts.tick(10.0 + KILL_GRACE_S / 2)
    assert owner.log == [(HERE, Cancel(1, True, "timeout"))]
    assert owner.sent == []
    owner.timeouts.tick(10.0 + KILL_GRACE_S)
    assert owner.sent == [KillWorker(7)]
    assert owner.log[1:] == ["fail 1: "]
    assert 1 not in owner.machine.pending
    owner.timeouts.tick(1000.0)
    assert len(owner.sent) == 1


def test_a_task_that_stops_in_time_leaves_its_worker_alone():
    owner = Limited()
    owner.timeouts.tick(10.0)
    owner.timeouts.forget(1)
    owner.timeouts.tick(1000.0)
    assert owner.sent == []


def test_a_task_whose_worker_is_gone_is_left_to_whoever_runs_it_again():
    owner = Limited()
    owner.workers.worker_died(WorkerDied(HERE, "it crashed", "crashed"))
    owner.workers.connection_ended(owner.ends[HERE])
    owner.timeouts.tick(1000.0)
    assert owner.sent == []
    assert owner.log == ["again 1: it crashed"]


def test_the_end_of_a_worker_that_was_killed_for_its_task_does_not_run_that_again():
    owner = Limited()
    worker = present(owner.task.worker)
    owner.timeouts.tick(10.0)
    owner.timeouts.tick(10.0 + KILL_GRACE_S)
    owner.workers.worker_died(WorkerDied(HERE, "it was ended", "killed"))
    owner.workers.connection_ended(owner.ends[HERE])
    assert [line for line in owner.log if "again" in line] == []
    assert not worker.inflight
    assert not owner.workers


@pytest.mark.parametrize(
    ("kind", "refusal", "cancelled", "error", "words"),
    [
        ("crashed", "", "", errors.WorkerCrashedError, "attempt 1.*max_retries=3"),
        ("oom", "", "", errors.OutOfMemoryError, "was ended because why"),
        ("refused", "", "", errors.TaskUnschedulableError, "cannot be scheduled: why"),
        ("refused", "unheard_of", "", errors.TaskUnschedulableError, "cannot be scheduled"),
        ("refused", "task_group_removed", "", errors.TaskPlacementGroupRemoved, "why"),
        ("refused", "queue_unavailable", "", errors.QueueUnavailableError, "why"),
        ("cancelled", "", "softly", errors.TaskCancelledError, "cancelled"),
        ("cancelled", "", FORCED, errors.TaskKilledError, "force=True"),
        ("cancelled", "", TIMED_OUT, errors.TaskTimeoutError, "ran longer than"),
    ],
)
def test_the_error_says_how_a_task_ended(kind, refusal, cancelled, error, words):
    task = PendingTask(1, template("f", 3), b"", None, None, [])
    task.cancelled = cancelled
    made = error_of(task, bytes(16), kind, "why", refusal)
    assert type(made) is error
    with pytest.raises(error, match=words):
        raise made
