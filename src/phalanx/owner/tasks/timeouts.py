"""Tasks that run longer than their `timeout_s`. They are asked to stop, then ended together with
their worker.
"""

from __future__ import annotations

from collections.abc import Callable

from phalanx.owner.tasks.leases import TaskMachine
from phalanx.owner.tasks.records import PendingTask
from phalanx.owner.transport import NodeLink, Outbox
from phalanx.owner.work import TIMED_OUT
from phalanx.protocol.messages import Cancel
from phalanx.protocol.node_messages import KillWorker

KILL_GRACE_S = 1.0
"""Seconds from the time when a task is asked to stop until its worker is ended."""


class Timeouts:
    """The tasks with a time limit that a worker has."""

    def __init__(
        self,
        machine: TaskMachine,
        outbox: Outbox,
        node: NodeLink,
        fail: Callable[[PendingTask, str, str], None],
    ) -> None:
        """`fail(task, kind, reason)` ends a task without a result."""
        self._machine = machine
        self._outbox = outbox
        self._node = node
        self._fail = fail
        self._limited: dict[int, PendingTask] = {}

    def limit(self, task: PendingTask, deadline: float) -> None:
        """Set a limit for a task that was sent to a worker: if the worker still has the task at
        `deadline`, the task is ended.
        """
        task.deadline = deadline
        self._limited[task.number] = task

    def forget(self, number: int) -> None:
        """Forget a task that no worker has any more."""
        self._limited.pop(number, None)

    def tick(self, now: float) -> None:
        """Ask tasks past their deadline to stop. Later, end their workers."""
        for task in list(self._limited.values()):
            assert task.deadline is not None
            if now < task.deadline:
                continue
            worker = task.worker
            if worker is None or worker.connection is None:
                self.forget(task.number)
            elif not task.cancelled:
                task.cancelled = TIMED_OUT
                self._outbox.post(worker.connection, Cancel(task.number, True, "timeout"))
                task.deadline = now + KILL_GRACE_S
            else:
                # The task did not stop when it was asked to. So its process is ended, and the task
                # fails now.
                self.forget(task.number)
                self._node.send(KillWorker(worker.lease))
                worker.inflight.pop(task.number, None)
                self._machine.pending.pop(task.number, None)
                worker.leaving = worker.is_stopping = True
                self._fail(task, "cancelled", "")
