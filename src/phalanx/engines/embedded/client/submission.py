"""This process's tasks: submission, results, retries.

The machine (`phalanx.owner.leases`) decides; here its effects are run and messages are turned
into its events. Every method is called with the runtime's lock held unless it says otherwise.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

from phalanx import errors
from phalanx.engines.embedded.client.cancelling import Cancelling
from phalanx.engines.embedded.client.gangs import OwnedGangs
from phalanx.engines.embedded.client.locality import Locality
from phalanx.engines.embedded.client.task_streams import begin_stream, end_stream, stream_item
from phalanx.errors import (
    OutOfMemoryError,
    PhalanxError,
    TaskCancelledError,
    TaskTimeoutError,
    WorkerCrashedError,
)
from phalanx.model.ids import INDEX_BITS, task_id_bytes
from phalanx.model.lifecycle import FAILED as STATE_FAILED
from phalanx.model.lifecycle import FINISHED, INFEASIBLE, PENDING_ARGS, PENDING_NODE, SUBMITTED
from phalanx.objects import failures
from phalanx.objects.reference import ObjectRef, make_ref
from phalanx.observe.task_journal import Run, TaskJournal
from phalanx.owner.leased_workers import LeasedWorkers, read_strategy
from phalanx.owner.leases import TaskMachine
from phalanx.owner.tasks import LeasedWorker, PendingTask, SchedulingClass, Template
from phalanx.protocol.messages import (
    FAILED,
    SHARED,
    Done,
    Failed,
    Function,
    Item,
    Lease,
    Message,
    Payload,
    Recall,
    Returned,
    Task,
    Value,
)
from phalanx.protocol.node_messages import (
    Granted,
    Refused,
)

if TYPE_CHECKING:
    from phalanx.engines.embedded.client.runtime import Runtime
    from phalanx.engines.processes.connection import Connection


class Submission:
    """The owner's shell for tasks."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.machine = TaskMachine(self)
        self.cancelling = Cancelling(runtime, self)
        self.locality = Locality(runtime)
        self.workers = LeasedWorkers(self.machine, runtime, self._tell_node)
        self._warned: set[str] = set()
        self.gangs = OwnedGangs(runtime, self)
        self._refusal_errors: dict[int, str] = {}
        self.children: dict[tuple[bytes, int], list[int]] = {}
        self.journal = TaskJournal()
        self._ending: deque[tuple[PendingTask, Value]] = deque()

    # ---- submitting --------------------------------------------------------------------------

    def submit(
        self,
        template: Template,
        args: Payload,
        inputs: list[ObjectRef[Any]] | None,
        pins: list[Any] | None,
        parent: tuple[bytes, int] | None,
        stream: Any = None,
    ) -> list[ObjectRef[Any]]:
        """Queue a task; its references. Takes the lock itself."""
        runtime = self._runtime
        sequence = runtime.next_sequence()
        base = sequence << INDEX_BITS
        me = runtime.process_id
        returns = template.returns
        if returns in (1, -2):
            refs = [make_ref(me, base + 1)]
        else:
            refs = [make_ref(me, base + i) for i in range(1, returns + 1)]
        task = PendingTask(sequence, template, args, inputs, pins, refs)
        for ref in refs:
            ref._task = sequence
        if stream is not None:
            begin_stream(runtime, stream, task)
        with runtime.lock:
            self.journal.begin(task, time.time())
            if parent is not None:
                self._add_child(parent, sequence)
            self.start(task)
        if self.machine.dirty:
            runtime.reactor.kick()
        return refs

    def submit_again(self, task: PendingTask) -> None:
        """Run a task that finished once more, because a result of it is lost."""
        self.journal.begin(task, time.time())
        self.start(task)
        self._runtime.reactor.kick()

    def start(self, task: PendingTask) -> None:
        """Queue the task once its inputs are there."""
        self.machine.pending[task.number] = task
        if self._runtime.closed:
            self.node_lost()
            return
        if task.inputs is not None:
            if not self._inputs_there(task, task.inputs):
                return
            self.journal.move(task, PENDING_NODE, time.time())
        self.machine.enqueue(task, self.machine.class_of(task.key))

    def _add_child(self, parent: tuple[bytes, int], sequence: int) -> None:
        children = self.children.setdefault(parent, [])
        children.append(sequence)
        if len(children) & 1023 == 0:  # of a parent that runs long, most have ended
            pending = self.machine.pending
            self.children[parent] = [n for n in children if n in pending]

    def _inputs_there(self, task: PendingTask, inputs: list[ObjectRef[Any]]) -> bool:
        values = self._runtime.values
        task.on_ready = self._inputs_ready
        missing = [ref for ref in inputs if ref._value is None]
        if not missing:
            return not self._fail_with_input(task)
        task.missing = len(missing)
        for ref in missing:
            values.add_waiter(ref, task)
        for ref in missing:
            values.fetch(ref)
        return False

    def _inputs_ready(self, task: PendingTask) -> None:
        if task.number not in self.machine.pending or self._fail_with_input(task):
            return
        self.journal.move(task, PENDING_NODE, time.time())
        self.machine.enqueue(task, self.machine.class_of(task.key))

    def _fail_with_input(self, task: PendingTask) -> bool:
        """A failed argument is the task's own failure: it does not run. Else large ones say where
        it should run."""
        has_large = False
        for ref in task.inputs or ():
            value = ref._value
            if type(value) is not Value:
                continue
            if value.kind == FAILED:
                self.machine.pending.pop(task.number, None)
                self.complete_all(task, value)
                return True
            has_large = has_large or value.kind == SHARED
        if has_large:
            self.locality.place(task)
        return False

    # ---- effects of the machine --------------------------------------------------------------

    def send_tasks(self, worker: LeasedWorker, tasks: list[PendingTask], urgent: bool) -> None:
        """Put tasks on the wire."""
        connection: Connection = worker.connection
        sent = self.workers.functions_sent(connection)
        values = self._runtime.values
        if len(worker.inflight) == len(tasks):
            worker.sent_at = time.monotonic()
        when = time.time()
        for task in tasks:
            template = task.template
            function = template.function
            self.journal.move(task, SUBMITTED, when)
            if function.key not in sent:
                sent.add(function.key)
                connection.post(
                    Function(function.key, function.pickle, function.name, function.max_calls)
                )
            inputs = [values.for_sending(ref) for ref in task.inputs] if task.inputs else []
            connection.post(
                Task(
                    task.number,
                    function.key,
                    task.args,
                    inputs,
                    template.returns,
                    template.name,
                    task.attempt,
                    template.backpressure,
                )
            )
            if template.timeout_s is not None:
                self.cancelling.limit(task, time.monotonic() + template.timeout_s)
        if urgent:
            connection.flush()
        else:
            self._runtime.mark_dirty(connection)

    def _tell_node(self, message: Message) -> None:
        self._runtime.node.send(message)

    def recall(self, worker: LeasedWorker) -> None:
        """Ask for unstarted tasks back."""
        self._runtime.post(worker.connection, Recall())

    def want_workers(self, scheduling_class: SchedulingClass, count: int) -> None:
        """Tell the node."""
        self.workers.want(scheduling_class, count)

    def return_lease(self, worker: LeasedWorker, reusable: bool) -> None:
        """Give a worker back."""
        self.workers.give_back(worker, reusable)

    def fail(self, task: PendingTask, kind: str, reason: str) -> None:
        """The task is over without a result."""
        name = task.template.name
        error: PhalanxError
        if kind == "oom":
            error = OutOfMemoryError(f"Task {name} was ended because {reason}.")
        elif kind == "refused":
            wanted = self._refusal_errors.get(self.machine.class_of(task.key).number, "")
            cls = getattr(errors, wanted, errors.TaskUnschedulableError)
            error = cls(f"Task {name} cannot be scheduled: {reason}.")
        elif kind == "timeout":
            error = TaskTimeoutError(reason)
        elif kind == "cancelled" and task.cancelled != "force":
            error = TaskCancelledError(self._task_hex(task), None)
        else:
            error = WorkerCrashedError(
                f"The worker died while it ran task {name} (attempt {task.attempt + 1}): "
                f"{reason}. It is not tried again: max_retries={task.template.max_retries}."
            )
        self.complete_all(task, failures.failed(error))

    def requeued(self, task: PendingTask, reason: str) -> None:
        """Recorded; all else is the machine's."""
        self.journal.move(task, PENDING_NODE, time.time(), reason)

    # ---- events ------------------------------------------------------------------------------

    def granted(self, message: Granted, now: float) -> None:
        """A worker of our own."""
        worker = self.workers.granted(message, now)
        if worker is None:
            return
        connection: Connection = worker.connection
        self._runtime.reactor.tick_soon()
        strategy = read_strategy(worker.scheduling_class.key.strategy)
        group = strategy.get("group")
        connection.post(
            Lease(
                message.lease,
                self._runtime.process_id[12:],
                message.resources,
                message.devices,
                None if group is None else bytes.fromhex(group),
                bool(strategy.get("capture")),
                message.gang,
            )
        )
        self.machine.pump(worker.scheduling_class)
        connection.flush()

    def refused(self, message: Refused) -> None:
        """The node cannot serve a class, now or ever."""
        if message.error:
            self._refusal_errors[message.scheduling_class] = message.error
        if message.scheduling_class:
            for task in self.machine.refused(
                message.scheduling_class, message.reason, message.fatal
            ):
                self.journal.move(task, INFEASIBLE, time.time(), message.reason)
        if not message.fatal and message.reason not in self._warned:
            self._warned.add(message.reason)
            if self._runtime.on_warning is not None:
                waiting = (
                    "" if not message.scheduling_class else "Tasks wait that nothing can run: "
                )
                self._runtime.on_warning(f"{waiting}{message.reason}")

    def done(self, connection: Connection, message: Done, now: float) -> None:
        """A task gave its result."""
        task = self._finish(connection, message.number, now)
        if task is None:
            for value in (message.value, *message.more):
                self._runtime.values.discard(value, connection.peer, message.number)
            return
        template = task.template
        template.function.observe(message.ended - message.started)
        template.function.failed = False
        self._record(task, FINISHED, message, connection.peer)
        values = self._runtime.values
        reconstruction = values.reconstruction
        returns = template.returns
        maker = None
        if returns == 1:
            value = message.value
            if type(value) is not bytes:
                maker = reconstruction.maker(task, (value,))
            if reconstruction.running:
                reconstruction.finished(task)
            values.complete(task.refs[0], value, connection.peer, maker)
        elif returns in (-1, -2):
            end_stream(self._runtime, task, None)
        else:
            results = [message.value, *message.more]
            maker = reconstruction.maker(task, results)
            reconstruction.finished(task)
            for ref, value in zip(task.refs, results, strict=False):
                values.complete(ref, value, connection.peer, maker)

    def _finish(self, connection: Connection, number: int, now: float) -> PendingTask | None:
        task = self.workers.finished(connection, number, now)
        if task is not None and task.deadline is not None:
            self.cancelling.forget(number)
        return task

    def failed(self, connection: Connection, message: Failed, now: float) -> None:
        """A task raised, or stopped because it was asked to."""
        task = self._finish(connection, message.number, now)
        if task is None:
            return
        template = task.template
        if message.kind == "lost" and not task.cancelled:
            self._inputs_lost(task, message)
            return
        template.function.observe(message.ended - message.started)
        self._record(task, STATE_FAILED, message, connection.peer)
        if message.kind == "cancelled" or task.cancelled:
            if task.cancelled.startswith("timeout"):
                self.fail(task, "timeout", task.cancelled[8:])
            else:
                error = TaskCancelledError(self._task_hex(task), None)
                self.complete_all(task, failures.failed(error))
            return
        if task.retries != 0 and failures.is_retriable(template.retry_exceptions, message.error):
            if task.retries > 0:
                task.retries -= 1
            self.machine.retry(task, "it raised an exception that retry_exceptions names")
            return
        self.complete_all(task, Value(FAILED, message.error))

    def _inputs_lost(self, task: PendingTask, message: Failed) -> None:
        """The worker did not find values of the task's arguments: it waits for them again."""
        error = self._runtime.values.reconstruction.inputs_lost(
            task, message.error.decode().split()
        )
        if error is not None:
            self.complete_all(task, error)
            return
        self.journal.move(task, PENDING_ARGS, time.time(), "an argument was lost")
        self.start(task)

    def item(self, connection: Connection, message: Item) -> None:
        """A generator gave a value."""
        task = self.workers.running(connection, message.number)
        if task is not None and task.stream is not None:
            stream_item(self._runtime, task, message, connection.peer)
        elif not self._runtime.calls.item(connection, message):
            self._runtime.values.discard(message.value, connection.peer, message.number)

    def returned(self, connection: Connection, message: Returned) -> None:
        """Unstarted tasks came back."""
        for number in self.workers.returned(connection, message.numbers):
            self.cancelling.forget(number)

    def node_lost(self) -> None:
        """The node's process is gone: nothing will ever finish."""
        error = failures.failed(errors.LocalNodeDiedError("The node process is gone."))
        pending, self.machine.pending = self.machine.pending, {}
        for task in pending.values():
            self.complete_all(task, error)

    def tick(self, now: float) -> bool:
        """Time passes: idle leases go back, tasks past their deadline end. Whether there is
        anything to look after."""
        self.machine.tick(now)
        self.cancelling.tick(now)
        self.gangs.tick(now)
        return bool(self.workers)

    # ---- ends --------------------------------------------------------------------------------

    def complete_all(self, task: PendingTask, value: Value) -> None:
        """The task is over: all that it was to give is `value`, a failure."""
        self._ending.append((task, value))
        if len(self._ending) > 1:
            return  # a failure of another's input: chains of tasks may be long
        while self._ending:
            try:
                self._end(*self._ending[0])
            finally:
                self._ending.popleft()

    def _end(self, task: PendingTask, value: Value) -> None:
        if task.state != STATE_FAILED:
            self.journal.move(task, STATE_FAILED, time.time())
        if task.stream is not None:
            end_stream(self._runtime, task, value)
            return
        self._runtime.values.reconstruction.finished(task)
        for ref in task.refs:
            self._runtime.values.complete(ref, value)

    def _task_hex(self, task: PendingTask) -> str:
        return task_id_bytes(self._runtime.process_id, task.number).hex()

    def _record(self, task: PendingTask, state: str, message: Done | Failed, worker: bytes) -> None:
        run = Run(
            task.number,
            task.template.name,
            state,
            message.started,
            message.ended,
            worker,
            task.attempt,
        )
        self.journal.ran(task, run)
