"""Ending tasks before their time: cancelled by their caller, or past their `timeout_s`.

Every method is called with the runtime's lock held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from phalanx.model.ids import INDEX_BITS
from phalanx.owner.tasks.records import PendingTask
from phalanx.protocol.messages import Cancel
from phalanx.protocol.node_messages import KillWorker

if TYPE_CHECKING:
    from phalanx.engines.embedded.client.runtime import Runtime
    from phalanx.engines.embedded.client.submission import Submission

KILL_GRACE_S = 1.0


class Cancelling:
    """Ends what `Submission` has on its way."""

    def __init__(self, runtime: Runtime, tasks: Submission) -> None:
        self._runtime = runtime
        self._tasks = tasks
        self._timed: dict[int, PendingTask] = {}

    def cancel_number(self, object_number: int, force: bool, recursive: bool) -> None:
        """Cancel the task behind one of our objects; nothing happens when it has finished."""
        number = object_number >> INDEX_BITS
        machine = self._tasks.machine
        task = machine.pending.get(number)
        if task is None:
            self._runtime.calls.cancel(number, force, recursive)
            return
        task.cancelled = "force" if force else "cancelled"
        worker = task.worker
        if worker is None:
            if not machine.withdraw(task):
                machine.pending.pop(number, None)
            task.cancelled = "cancelled"
            self._tasks.fail(task, "cancelled", "")
            return
        is_head = next(iter(worker.inflight)) == number
        if force and is_head:
            self._runtime.node.send(KillWorker(worker.lease))
        else:
            self._runtime.post(worker.connection, Cancel(number, recursive))

    def cancel_children(self, parent: tuple[bytes, int]) -> None:
        """Cancel what a cancelled task has started."""
        for number in self._tasks.children.get(parent, ()):
            self.cancel_number(number << INDEX_BITS, False, True)

    def limit(self, task: PendingTask, deadline: float) -> None:
        """The task was sent; it is ended when it is still there at `deadline`."""
        task.deadline = deadline
        self._timed[task.number] = task

    def forget(self, number: int) -> None:
        """The task is not at a worker any more."""
        self._timed.pop(number, None)

    def tick(self, now: float) -> None:
        """Time passes: tasks past their deadline are asked to stop, then their workers end."""
        for task in list(self._timed.values()):
            assert task.deadline is not None
            if now < task.deadline:
                continue
            worker = task.worker
            if worker is None:
                self.forget(task.number)
            elif not task.cancelled:
                limit = task.template.timeout_s
                task.cancelled = f"timeout:Task {task.template.name} ran longer than {limit} s."
                self._runtime.post(worker.connection, Cancel(task.number, True, "timeout"))
                task.deadline = now + KILL_GRACE_S
            else:
                # It did not stop when asked to: end its process, and answer now.
                self.forget(task.number)
                reason = task.cancelled[8:]
                self._runtime.node.send(KillWorker(worker.lease))
                worker.inflight.pop(task.number, None)
                self._tasks.machine.pending.pop(task.number, None)
                worker.leaving = True
                self._tasks.fail(task, "timeout", reason)
