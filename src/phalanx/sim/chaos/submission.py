"""A simulated owner's tasks: effects of the task machine, and its events; as `submission` does it.

Values, streams and cancelling are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from phalanx.owner.leases import TaskMachine
from phalanx.owner.tasks import LeasedWorker, PendingTask, SchedulingClass, Template
from phalanx.protocol.messages import Done, Failed, Function, Lease, Recall, Returned, Task, Unlease
from phalanx.protocol.node_messages import (
    Granted,
    KillWorker,
    LeaseReturned,
    LeaseWanted,
    Refused,
    WorkerDied,
)
from phalanx.sim.chaos.gangs import SimGangs
from phalanx.sim.chaos.worker import Work

if TYPE_CHECKING:
    from phalanx.sim.chaos.driver import SimDriver
    from phalanx.sim.chaos.network import End


class SimSubmission:
    """The owner's shell for tasks."""

    def __init__(self, driver: SimDriver) -> None:
        self._driver = driver
        self.machine = TaskMachine(self)
        self._sent_functions: dict[End, set[bytes]] = {}
        self._by_connection: dict[End, list[LeasedWorker]] = {}
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
        sent = self._sent_functions[end]
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
        key = scheduling_class.key
        self._driver.node_end.post(
            LeaseWanted(
                scheduling_class.number,
                dict(key.resources),
                count,
                key.environment,
                _strategy(key.strategy),
                key.priority,
                key.queue,
                scheduling_class.granted,
            )
        )

    def return_lease(self, worker: LeasedWorker, reusable: bool) -> None:
        """See owner.leases.Effects."""
        end: End | None = worker.connection
        if end is not None:
            self._forget_worker(worker)
            end.post(Unlease())
        self._driver.node_end.post(LeaseReturned(worker.lease, reusable))

    def fail(self, task: PendingTask, kind: str, reason: str) -> None:
        """See owner.leases.Effects."""
        number = self.machine.class_of(task.template.key).number
        error = self._refusals.get(number, "TaskUnschedulableError") if kind == "refused" else kind
        self.over(task, error, reason)

    def requeued(self, task: PendingTask, reason: str) -> None:
        """See owner.leases.Effects."""

    # ---- events ------------------------------------------------------------------------------

    def granted(self, message: Granted, now: float) -> None:
        """A worker of our own."""
        if not self.machine.known(message.scheduling_class):
            self._driver.node_end.post(LeaseReturned(message.lease))
            return
        driver = self._driver
        end = driver.peer(message.worker)
        if end is None:
            driver.node_end.post(LeaseReturned(message.lease, False))
            self.machine.unreachable(message.scheduling_class)
            return
        worker = self.machine.granted(message.scheduling_class, message.lease, message.worker, now)
        if worker is None:
            return
        worker.connection = end
        self._sent_functions.setdefault(end, set())
        self._by_connection.setdefault(end, []).append(worker)
        group = _strategy(worker.scheduling_class.key.strategy).get("group")
        end.post(
            Lease(
                message.lease,
                driver.process_id[12:],
                message.resources,
                message.devices,
                None if group is None else bytes.fromhex(group),
            )
        )
        self.machine.pump(worker.scheduling_class)

    def refused(self, message: Refused) -> None:
        """The node cannot serve a class, now or ever."""
        if message.error:
            self._refusals[message.scheduling_class] = message.error
        if message.scheduling_class:
            self.machine.refused(message.scheduling_class, message.reason, message.fatal)

    def _finish(self, end: End, number: int, now: float) -> PendingTask | None:
        for worker in self._by_connection.get(end, ()):
            if number in worker.inflight:
                return self.machine.finished(worker, number, now)
        return None

    def done(self, end: End, message: Done, now: float) -> None:
        """A task gave its result."""
        task = self._finish(end, message.number, now)
        if task is not None and not task.cancelled:
            task.template.function.observe(message.ended - message.started)
            task.template.function.failed = False
            self._driver.world.promises.task_done(self._driver, task, end.peer)
            self.gangs.ended(task, failed=False)

    def failed(self, end: End, message: Failed, now: float) -> None:
        """A task raised."""
        task = self._finish(end, message.number, now)
        if task is None:
            return
        task.template.function.observe(message.ended - message.started)
        if task.retries != 0 and task.template.retry_exceptions:
            if task.retries > 0:
                task.retries -= 1
            self.machine.retry(task, "it raised an exception that retry_exceptions names")
            return
        self.over(task, "raised", "its own exception")

    def returned(self, end: End, message: Returned) -> None:
        """Unstarted tasks came back."""
        for worker in self._by_connection.get(end, ()):
            mine = [n for n in message.numbers if n in worker.inflight]
            if mine:
                self.machine.returned(worker, mine)

    def leaving(self, end: End) -> None:
        """The worker ends by plan."""
        for worker in list(self._by_connection.get(end, ())):
            self.machine.leaving(worker)

    def worker_died(self, message: WorkerDied) -> None:
        """The node says that a process is gone; its results may still be on their way."""
        for workers in list(self._by_connection.values()):
            for worker in list(workers):
                if worker.worker == message.worker:
                    worker.died = (message.reason, message.kind)
                    self._bury(worker)

    def peer_lost(self, end: End) -> None:
        """A connection's end: all results of that worker are in."""
        for worker in list(self._by_connection.get(end, ())):
            worker.ended = True
            if worker.died is None and not self._driver.is_here(end.peer):
                self._driver.node_end.post(KillWorker(worker.lease))
            self._bury(worker)
        self._sent_functions.pop(end, None)

    def _bury(self, worker: LeasedWorker) -> None:
        if worker.died is None or not worker.ended:
            return
        reason, kind = worker.died
        self._forget_worker(worker)
        self.machine.worker_lost(worker, reason, kind)

    def _forget_worker(self, worker: LeasedWorker) -> None:
        workers = self._by_connection.get(worker.connection)
        if workers is not None and worker in workers:
            workers.remove(worker)
            if not workers:
                del self._by_connection[worker.connection]


def _strategy(strategy: bytes) -> dict[str, Any]:
    return msgspec.json.decode(strategy) if strategy else {}
