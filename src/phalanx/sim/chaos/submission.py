"""A simulated owner's tasks: effects of the task machine, and its events; as `submission` does it.

Values, streams and cancelling are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from phalanx.owner.tasks.leased_workers import LeasedWorkers, read_strategy
from phalanx.owner.tasks.leases import TaskMachine
from phalanx.owner.tasks.records import LeasedWorker, PendingTask, SchedulingClass, Template
from phalanx.protocol.messages import Done, Failed, Function, Lease, Recall, Task
from phalanx.protocol.node_messages import (
    Granted,
    Refused,
)
from phalanx.protocol.wire_errors import class_of
from phalanx.sim.chaos.gangs import SimGangs
from phalanx.sim.chaos.worker import Work

if TYPE_CHECKING:
    from phalanx.sim.chaos.driver import SimDriver
    from phalanx.sim.chaos.network import End, Message


class SimSubmission:
    """The owner's shell for tasks."""

    def __init__(self, driver: SimDriver) -> None:
        self._driver = driver
        self.machine = TaskMachine(self)
        self.workers = LeasedWorkers(self.machine, driver, self._tell_node)
        self._refusals: dict[int, str] = {}
        self.gangs = SimGangs(driver, self)

    def submit(self, template: Template, work: Work) -> PendingTask:
        """Queue a task."""
        task = self.promise(template, work)
        self.start(task)
        return task

    def promise(self, template: Template, work: Work) -> PendingTask:
        """A task that is to run, now or later."""
        number = next(self._driver.sequence)
        task = PendingTask(number, template, msgspec.msgpack.encode(work), None, None, [])
        self._driver.world.promises.task_promised(self._driver, task)
        self.machine.pending[number] = task
        return task

    def start(self, task: PendingTask) -> None:
        """Queue it."""
        self.machine.enqueue(task, self.machine.class_of(task.key))

    def over(self, task: PendingTask, kind: str, reason: str) -> None:
        """The task has failed."""
        if task.cancelled:
            return  # its gang has failed, and it with it
        self._driver.world.promises.task_failed(self._driver, task, kind, reason)
        self.gangs.ended(task, failed=True)

    # ---- effects -----------------------------------------------------------------------------

    def send_tasks(self, worker: LeasedWorker, tasks: list[PendingTask], urgent: bool) -> None:
        """See owner.leases.Effects."""
        end: End = worker.connection
        sent = self.workers.functions_sent(end)
        if len(worker.inflight) == len(tasks):
            worker.sent_at = self._driver.host.clock()
        for task in tasks:
            template = task.template
            function = template.function
            if function.key not in sent:
                sent.add(function.key)
                end.post(Function(function.key, b"", function.name))
            end.post(
                Task(task.number, function.key, task.args, [], 1, template.name, task.attempt, -1)
            )

    def recall(self, worker: LeasedWorker) -> None:
        """See owner.leases.Effects."""
        worker.connection.post(Recall())

    def want_workers(self, scheduling_class: SchedulingClass, count: int) -> None:
        """See owner.leases.Effects."""
        self.workers.want(scheduling_class, count)

    def return_lease(self, worker: LeasedWorker, reusable: bool) -> None:
        """See owner.leases.Effects."""
        self.workers.give_back(worker, reusable)

    def fail(self, task: PendingTask, kind: str, reason: str) -> None:
        """See owner.leases.Effects."""
        number = self.machine.class_of(task.template.key).number
        error = self._refusals.get(number, "TaskUnschedulableError") if kind == "refused" else kind
        self.over(task, error, reason)

    def requeued(self, task: PendingTask, reason: str) -> None:
        """See owner.leases.Effects."""

    def _tell_node(self, message: Message) -> None:
        self._driver.node_end.post(message)

    # ---- events ------------------------------------------------------------------------------

    def granted(self, message: Granted, now: float) -> None:
        """A worker of our own."""
        worker = self.workers.granted(message, now)
        if worker is None:
            return
        group = read_strategy(worker.scheduling_class.key.strategy).get("group")
        worker.connection.post(
            Lease(
                message.lease,
                self._driver.process_id[12:],
                message.resources,
                message.devices,
                None if group is None else bytes.fromhex(group),
            )
        )
        self.machine.pump(worker.scheduling_class)

    def refused(self, message: Refused) -> None:
        """The node cannot serve a class, now or ever."""
        if message.code:
            self._refusals[message.scheduling_class] = class_of(message.code).__name__
        if message.scheduling_class:
            self.machine.refused(message.scheduling_class, message.reason, message.fatal)

    def done(self, end: End, message: Done, now: float) -> None:
        """A task gave its result."""
        task = self.workers.finished(end, message.number, now)
        if task is not None and not task.cancelled:
            task.template.function.observe(message.ended - message.started)
            task.template.function.failed = False
            self._driver.world.promises.task_done(self._driver, task, end.peer)
            self.gangs.ended(task, failed=False)

    def failed(self, end: End, message: Failed, now: float) -> None:
        """A task raised."""
        task = self.workers.finished(end, message.number, now)
        if task is None:
            return
        task.template.function.observe(message.ended - message.started)
        if task.retries != 0 and task.template.retry_exceptions:
            if task.retries > 0:
                task.retries -= 1
            self.machine.retry(task, "it raised an exception that retry_exceptions names")
            return
        self.over(task, "raised", "its own exception")
