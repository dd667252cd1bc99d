"""The tasks of one process: their submission, their way to leased workers, their results, failures
and retries.

The task machine decides which worker gets which task. This module turns its effects into messages,
and messages into its events. Every transition of a task is recorded in the journal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from phalanx.errors import LocalNodeDiedError
from phalanx.model.ids import INDEX_BITS, group_id_of, task_id_bytes
from phalanx.model.lifecycle import FAILED as STATE_FAILED
from phalanx.model.lifecycle import INFEASIBLE, PENDING_ARGS, PENDING_NODE, SUBMITTED
from phalanx.objects import failures
from phalanx.objects.reference import ObjectRef, make_ref
from phalanx.objects.serialization import CallArguments, pack_call
from phalanx.objects.streams import Stream
from phalanx.observe.task_journal import Runs, TaskJournal
from phalanx.owner.children import Children, Parent
from phalanx.owner.objects.owned import OwnedObjects
from phalanx.owner.objects.table import NoteMade
from phalanx.owner.peers.connections import Peers
from phalanx.owner.shell import OwnerShell
from phalanx.owner.tasks.failures import error_kind, error_of
from phalanx.owner.tasks.leased_workers import LeasedWorkers, read_strategy
from phalanx.owner.tasks.leases import TaskMachine
from phalanx.owner.tasks.locality import Locality
from phalanx.owner.tasks.records import (
    LeasedWorker,
    PendingTask,
    SchedulingClass,
    TaskBurst,
    Template,
)
from phalanx.owner.tasks.timeouts import Timeouts
from phalanx.owner.transport import Connection
from phalanx.owner.work import CANCELLED
from phalanx.protocol.messages import (
    FAILED,
    SHARED,
    Done,
    Failed,
    Function,
    Item,
    Lease,
    Payload,
    Recall,
    Results,
    Task,
    Tasks,
    Value,
)
from phalanx.protocol.node_messages import Granted, Refused

_FAILED_IN = {SUBMITTED: "WORKER_DIED", INFEASIBLE: "TASK_UNSCHEDULABLE_ERROR"}
"""Ray's names for the failures of tasks that did not end of their own accord, by the task's
state.
"""


class Submission:
    """All tasks of one process."""

    def __init__(
        self,
        me: bytes,
        numbers: Iterator[int],
        shell: OwnerShell,
        *,
        peers: Peers,
        objects: OwnedObjects,
        locality: Locality,
        children: Children,
        journal: TaskJournal,
    ) -> None:
        """`numbers`: yields the numbers of tasks, calls and objects."""
        self._me = me
        self._numbers = numbers
        self._outbox = outbox = shell.outbox
        self._clock = shell.clock
        self._wall = shell.wall
        self._request_tick = shell.request_tick
        self._warn = shell.warn
        self._objects = objects.table
        self._inputs = objects.inputs
        self._streams = objects.streams
        self._results = objects.results
        self._unread = objects.unread
        self.locality = locality
        self._children = children
        self.journal = journal
        self.machine = TaskMachine(self)
        self.workers = LeasedWorkers(self.machine, peers, outbox, shell.node)
        self._timeouts = Timeouts(self.machine, outbox, shell.node, self.fail)
        self._warned: set[str] = set()
        self._refusals: dict[int, str] = {}
        """For each refused class, by its number: the code of the error with which the node refused
        it.
        """
        self._ending: deque[tuple[PendingTask, Value]] = deque()
        self._is_closed = False
        self.note_made: NoteMade | None = None
        """A function that is called with new references; see `objects.table.NoteMade`."""

    # ---- submitting --------------------------------------------------------------------------

    def submit(
        self, task: PendingTask, parent: Parent | None = None, stream: Stream | None = None
    ) -> None:
        """Run a new task. If `parent` is given, the task is its child."""
        if stream is not None:
            self._streams.begin(stream, task, task.template.backpressure)
        task.created = now = self._wall()
        self.journal.begin(task, now)
        if parent is not None:
            task.parent = parent
            self._children.add(parent, task.number)
        if task.inputs is None and not self._is_closed:  # the same as `start`, but without a call
            self.machine.pending.records[task.number] = task
            self.machine.enqueue(task)
        else:
            self.start(task)

    def call(
        self, template: Template, args: CallArguments, parent: Parent | None
    ) -> ObjectRef[Any]:
        """Run a function whose template `goes_in_bursts`. The arguments contain no references.
        Returns the reference to the result.
        """
        number = next(self._numbers)
        ref = make_ref(self._me, (number << INDEX_BITS) + 1)
        if self.note_made is not None:
            self.note_made([ref], "task call")
        now = self._wall()
        if self._is_closed or not self.machine.join(template, number, args, ref, now, parent):
            packed = pack_call(args) if args else b""
            task = PendingTask(number, template, packed, None, None, [ref])
            self.submit(task, parent)
        elif parent is not None:
            self._children.add(parent, number)
        return ref

    def hold_back(self, task: PendingTask) -> None:
        """Keep a new task back until another part starts or fails it."""
        self.journal.begin(task, self._wall())
        self.machine.pending[task.number] = task

    def new(
        self,
        template: Template,
        args: Payload,
        inputs: list[ObjectRef[Any]] | None,
        pins: list[Any] | None,
    ) -> PendingTask:
        """Return a new task that no other part knows yet.

        Any thread may call this. Only `submit` needs the owner's lock, so the lock is held for less
        time.
        """
        number = next(self._numbers)
        base = number << INDEX_BITS
        me = self._me
        returns = template.returns
        if returns in (1, -2):
            refs = [make_ref(me, base + 1)]
        else:
            refs = [make_ref(me, base + i) for i in range(1, returns + 1)]
        if self.note_made is not None:
            self.note_made(refs, "task call")
        return PendingTask(number, template, args, inputs, pins, refs)

    def run_again(self, task: PendingTask) -> None:
        """Run a finished task again, because a result of it is lost."""
        task.state = PENDING_NODE if task.inputs is None else PENDING_ARGS
        self.journal.begin(task, self._wall())
        self.start(task)

    def start(self, task: PendingTask) -> None:
        """Queue the task when its inputs are here."""
        self.machine.pending[task.number] = task
        if self._is_closed:
            self.node_lost()
        elif task.inputs is None:
            self.machine.enqueue(task)
        elif self._inputs.wait(task, self._inputs_ready):
            self._inputs.fetch(task)
        else:
            self._inputs_ready(task)

    def _inputs_ready(self, task: PendingTask) -> None:
        if task.number not in self.machine.pending or self._fail_with_input(task):
            return
        self.journal.move(task, PENDING_NODE, self._wall())
        self.machine.enqueue(task)

    def _fail_with_input(self, task: PendingTask) -> bool:
        """If an argument of the task has failed, fail the task with the argument's failure. Returns
        whether the task failed.

        If no argument has failed, choose the node for the task by the places of its large
        arguments.
        """
        has_large = False
        for ref in task.inputs or ():
            value = ref._value
            if type(value) is not Value:
                continue
            if value.kind == FAILED:
                self.machine.pending.pop(task.number, None)
                self.end(task, failures.of_argument(value, task.template.name))
                return True
            has_large = has_large or value.kind == SHARED
        if has_large:
            self.locality.place(task, lambda key: self.machine.class_of(key).number)
        return False

    def waited_for(self, refs: list[ObjectRef[Any]]) -> None:
        """Record that a reader waits for these objects, if their tasks run near their arguments."""
        pending = self.machine.pending.records  # tasks in bursts have no references as arguments
        mine = (pending.get(r._number >> INDEX_BITS) for r in refs if r._owner == self._me)
        self.locality.waited_for(task for task in mine if task is not None)

    # ---- effects of the machine --------------------------------------------------------------

    def send_tasks(
        self, worker: LeasedWorker, tasks: list[PendingTask | TaskBurst], urgent: bool
    ) -> None:
        """Send these tasks, in order: with `urgent` immediately, otherwise with the next flush."""
        connection = worker.connection
        assert connection is not None
        sent = worker.functions_sent
        for_sending = self._objects.for_sending
        size = worker.inflight.size
        if size == 1 or size == sum(map(_count, tasks)):
            worker.sent_at = self._clock()
        when = self._wall()
        for task in tasks:
            template = task.template
            function = template.function
            if function.key not in sent:
                sent.add(function.key)
                connection.post(
                    Function(function.key, function.pickle, function.name, function.max_calls)
                )
            if isinstance(task, TaskBurst):
                self.journal.move_all(task, len(task), SUBMITTED, when)
                connection.post(Tasks(task.first, function.key, task.packed(), template.name))
                continue
            self.journal.move(task, SUBMITTED, when)
            inputs = [for_sending(ref) for ref in task.inputs] if task.inputs else []
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
                self._timeouts.limit(task, self._clock() + template.timeout_s)
        if urgent:
            connection.flush()
        else:
            self._outbox.flush_later(connection)

    def recall(self, worker: LeasedWorker) -> None:
        """Ask the worker for the tasks that it has not started."""
        assert worker.connection is not None
        self._outbox.post(worker.connection, Recall())

    def want_workers(self, scheduling_class: SchedulingClass, count: int) -> None:
        """Tell the node how many more workers this class would use. `count` is OVER if no more
        tasks of the class will come.
        """
        self.workers.want(scheduling_class, count)

    def return_lease(self, worker: LeasedWorker, reusable: bool) -> None:
        """Give a worker back to the node."""
        self.workers.give_back(worker, reusable)

    def fail(self, task: PendingTask, kind: str, reason: str) -> None:
        """Fail a task that will not run, or will not run again."""
        refusal = ""
        if kind == "refused":
            refusal = self._refusals.get(self.machine.class_of(task.key).number, "")
        self.end(task, failures.failed(error_of(task, self._me, kind, reason, refusal)))

    def attempt_lost(self, task: PendingTask) -> None:
        """Record an attempt during which the worker died."""
        self._record_failure(task, "WORKER_DIED")

    def requeued(self, task: PendingTask, reason: str) -> None:
        """Record that the task is queued again."""
        self.journal.move(task, PENDING_NODE, self._wall(), reason)

    # ---- events: leases ----------------------------------------------------------------------

    def granted(self, message: Granted, now: float) -> None:
        """Add a worker that the node lends, and send it its first tasks."""
        worker = self.workers.granted(message, now)
        if worker is None or worker.connection is None:
            return
        connection = worker.connection
        self._request_tick()
        strategy = read_strategy(worker.scheduling_class.key.strategy)
        group = strategy.get("group")
        connection.post(
            Lease(
                message.lease,
                self._me[12:],
                message.resources,
                message.devices,
                None if group is None else group_id_of(group),
                bool(strategy.get("capture")),
                message.gang,
                message.variables,
            )
        )
        self.machine.pump(worker.scheduling_class)
        connection.flush()

    def refused(self, message: Refused) -> None:
        """Handle the node's refusal of a class, which may be temporary or final."""
        if message.code:
            self._refusals[message.scheduling_class] = message.code
        if message.scheduling_class:
            for task in self.machine.refused(
                message.scheduling_class, message.reason, message.fatal
            ):
                if isinstance(task, TaskBurst):
                    count, when = len(task), self._wall()
                    self.journal.move_all(task, count, INFEASIBLE, when, message.reason)
                else:
                    self.journal.move(task, INFEASIBLE, self._wall(), message.reason)
        if not message.fatal and message.reason not in self._warned:
            self._warned.add(message.reason)
            waiting = "Tasks wait that no node can run: " if message.scheduling_class else ""
            self._warn(f"{waiting}{message.reason}")

    # ---- events: outcomes --------------------------------------------------------------------

    def done(self, connection: Connection, message: Done, now: float) -> None:
        """Deliver the results of a task."""
        task = self.workers.finished(connection, message.number, now)
        if task is not None and task.deadline is not None:
            self._timeouts.forget(message.number)
        # The task is over, for instance because its gang is.
        if task is None or task.state == STATE_FAILED:
            self._results.discard(message, connection.peer)
            return
        template = task.template
        function = template.function
        function.observe(message.ended - message.started)
        function.failed = False
        self.journal.ran(task, message, connection.peer)
        if task.inputs:
            self.locality.note_reads(task.inputs, connection.peer)
        self._results.deliver(task, template.returns, message, connection.peer)

    def done_together(self, connection: Connection, message: Results, at: int, now: float) -> int:
        """Deliver the results in a message, from position `at` on, to tasks of one burst. Stop at
        the first result whose task is not in that burst. Returns how many results were delivered: 0
        if the first task has a record of its own.
        """
        first, most = message.first + at, len(message.values) - at
        burst = self.workers.finished_burst(connection, first, most, now)
        if burst is None:
            return 0
        part = message.part(at, len(burst))
        template = burst.template
        function = template.function
        function.observe_all(part.started, part.ended)
        function.failed = False
        runs = Runs(
            burst.first,
            template.name,
            template.about,
            connection.peer,
            started=part.started,
            ended=part.ended,
            created=burst.created,
            parent=burst.parent,
        )
        self.journal.ran_all(burst, runs)
        self._objects.complete_all(burst.refs, part.values)
        return len(burst)

    def failed(self, connection: Connection, message: Failed, now: float) -> None:
        """Handle a task that raised an error, or that stopped on request."""
        task = self.workers.finished(connection, message.number, now)
        if task is not None and task.deadline is not None:
            self._timeouts.forget(message.number)
        if task is None or task.state == STATE_FAILED:
            return
        if message.kind == "lost" and not task.cancelled:
            self._inputs_lost(task, message)
            return
        template = task.template
        template.function.observe(message.ended - message.started)
        self.journal.ran(task, message, connection.peer, error_kind(message), message.summary)
        if message.kind == "cancelled" and task.cancelled in ("", CANCELLED):
            name = task_id_bytes(self._me, task.number).hex()
            self.end(task, failures.cancelled(name, template.name))
        elif message.kind == "cancelled" or task.cancelled not in ("", CANCELLED):
            self._results.discard_values(task.number, message.values, connection.peer)
            self.fail(task, "cancelled", "")
        elif (
            task.retries != 0
            and message.retriable
            and not task.cancelled
            and failures.is_retriable(template.retry_exceptions, message.error)
        ):
            if task.retries > 0:
                task.retries -= 1
            self._results.discard_values(task.number, message.values, connection.peer)
            self._unread.retried(f"Task {template.name}", message.error, task.retries)
            reason = "it raised an exception that retry_exceptions names"
            self.machine.retry_later(task, reason, now)
        else:
            self._results.deliver_first(task, message.values, connection.peer)
            self.end(task, Value(FAILED, message.error))

    def _inputs_lost(self, task: PendingTask, message: Failed) -> None:
        """Wait again for arguments whose values the worker did not find."""
        error = self._inputs.lost(task, message.error.decode().split())
        if error is not None:
            self.end(task, error)
            return
        self.journal.move(task, PENDING_ARGS, self._wall(), "an argument was lost")
        self.start(task)

    def item(self, connection: Connection, message: Item) -> bool:
        """Add an item that a generator has yielded to the stream of its task. Returns False if the
        generator is not a task of this process.
        """
        task = self.workers.running(connection, message.number)
        if task is None or task.stream is None:
            return False
        self._streams.item(task, message, connection.peer)
        return True

    def returned(self, connection: Connection, numbers: list[int]) -> None:
        """Queue again the tasks that a worker returns because it has not started them."""
        for number in self.workers.returned(connection, numbers):
            self._timeouts.forget(number)

    def _record_failure(self, task: PendingTask, error: str) -> None:
        """Record an attempt that failed without an answer."""
        now, template = self._wall(), task.template
        name, about, created = template.name, template.about, task.created
        attempt, parent = task.attempt, task.parent
        self.journal.add_run(
            (
                task.number,
                name,
                STATE_FAILED,
                now,
                now,
                b"",
                attempt,
                about,
                created,
                parent,
                error,
                "",
            )
        )

    # ---- time and ends -----------------------------------------------------------------------

    def tick(self, now: float) -> bool:
        """Give idle leases back, and end tasks whose deadline has passed. Returns whether the next
        tick is due soon.
        """
        self.machine.tick(now)
        self._timeouts.tick(now)
        return bool(self.workers or self.machine.resting)

    def node_lost(self) -> None:
        """Fail all tasks: the node's process has ended, or this process leaves its node."""
        self._is_closed = True
        error = failures.failed(LocalNodeDiedError("The node process is gone."))
        for task in self.machine.pending.clear():
            self.end(task, error)

    def record_left(self) -> None:
        """Mark the tasks that have not ended as failed in the records for listings, because this
        process leaves its node.
        """
        for task in self.machine.pending.values():
            self._record_failure(task, "WORKER_DIED")

    def shut_down(self) -> None:
        """Fail tasks that are submitted from now on, because this process leaves its node."""
        self._is_closed = True

    def end(self, task: PendingTask, error: Value) -> None:
        """End the task. The failure becomes the value of all its results."""
        self._ending.append((task, error))
        if len(self._ending) > 1:
            # an input of another task has failed; there is no recursion, because chains of tasks
            # may be long
            return
        while self._ending:
            try:
                self._end(*self._ending[0])
            finally:
                self._ending.popleft()

    def _end(self, task: PendingTask, error: Value) -> None:
        if task.state != STATE_FAILED:
            kind = "TASK_CANCELLED" if task.cancelled else _FAILED_IN.get(task.state, "")
            self._record_failure(task, kind or "TASK_EXECUTION_EXCEPTION")
            self.journal.move(task, STATE_FAILED, self._wall())
        self._results.fail(task, error)


def _count(task: PendingTask | TaskBurst) -> int:
    return len(task) if isinstance(task, TaskBurst) else 1
