"""Cancellation of tasks and calls."""

from __future__ import annotations

from phalanx.model.ids import INDEX_BITS
from phalanx.owner.actors.calls import Calls
from phalanx.owner.children import Children, Parent
from phalanx.owner.objects.lineage import Lineage
from phalanx.owner.tasks.records import PendingTask
from phalanx.owner.tasks.submission import Submission
from phalanx.owner.transport import NodeLink, Outbox
from phalanx.owner.work import CANCELLED, FORCED
from phalanx.protocol.messages import Cancel
from phalanx.protocol.node_messages import KillWorker


class Cancelling:
    """Cancels work of this process that has not ended."""

    def __init__(
        self,
        tasks: Submission,
        calls: Calls,
        children: Children,
        lineage: Lineage,
        outbox: Outbox,
        node: NodeLink,
    ) -> None:
        self._tasks = tasks
        self._calls = calls
        self._children = children
        self._lineage = lineage
        self._outbox = outbox
        self._node = node

    def cancel(self, object_number: int, force: bool, recursive: bool) -> None:
        """Cancel the work behind an object of this process.

        If the work has ended, it will not run again for lost results. `force`: end the process of a
        running task. `recursive`: also cancel what the work has started.
        """
        number = object_number >> INDEX_BITS
        machine = self._tasks.machine
        task = machine.own(number)
        if task is None:
            if number not in self._calls.by_number:
                self._lineage.cancelled(number)
            self._calls.cancel(number, recursive)
            return
        worker = task.worker
        if worker is None or worker.connection is None:
            self._withdraw(task)
            return
        task.cancelled = FORCED if force else CANCELLED
        is_running = worker.inflight.first == number
        if force and is_running:
            self._node.send(KillWorker(worker.lease))
        else:
            self._outbox.post(worker.connection, Cancel(number, recursive))

    def withdraw(self, object_number: int) -> bool:
        """Cancel the task behind an object, if no worker has the task. Returns whether it was
        cancelled.
        """
        task = self._tasks.machine.own(object_number >> INDEX_BITS)
        if task is None or (task.worker is not None and task.worker.connection is not None):
            return False
        self._withdraw(task)
        return True

    def _withdraw(self, task: PendingTask) -> None:
        task.cancelled = CANCELLED
        machine = self._tasks.machine
        if not machine.withdraw(task):
            machine.pending.pop(task.number, None)
        self._tasks.fail(task, "cancelled", "")

    def cancel_children(self, parent: Parent) -> None:
        """Cancel the work that a cancelled task or call has started here, and whatever that work
        has started.
        """
        for number in self._children.of(parent):
            self.cancel(number << INDEX_BITS, force=False, recursive=True)
