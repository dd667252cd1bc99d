"""The record of one task at its owner: its function, its arguments, its future results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import msgspec

from phalanx.model.lifecycle import PENDING_ARGS, PENDING_NODE
from phalanx.objects.reference import ObjectRef
from phalanx.observe.task_journal import TASK_ALONE, About
from phalanx.owner.bursts import Burst, Unfinished
from phalanx.owner.children import Parent
from phalanx.owner.pipeline import Pipeline
from phalanx.owner.transport import Connection
from phalanx.owner.work import PendingWork
from phalanx.owner.work_queue import WorkQueue
from phalanx.protocol.messages import Payload

_WEIGHT = 0.2
"""The weight of a new run time in the exponential average."""


class FunctionRecord:
    """A remote function or class as its owner sends it: its definition, its name, and its mean run
    time.
    """

    __slots__ = ("failed", "key", "max_calls", "mean_s", "name", "pickle")

    def __init__(self, key: bytes, name: str, pickle: bytes, max_calls: int = 0) -> None:
        self.key = key
        self.name = name
        self.pickle = pickle
        self.max_calls = max_calls
        """The number of calls after which the worker ends; 0 for any number of calls."""
        self.mean_s: float | None = None
        """The exponential average of the function's run times, in seconds; None before the first
        run.
        """
        self.failed = False
        """Whether a worker that ran the function died recently. Its tasks are then sent one at a
        time.
        """

    def observe(self, seconds: float) -> None:
        """Add the seconds that one run took."""
        mean = self.mean_s
        if mean is None:
            self.mean_s = seconds
        elif seconds > 4 * mean:
            # A much longer run counts fully, because it limits how many tasks may be queued
            # behind it.
            self.mean_s = seconds
        else:
            self.mean_s = mean + _WEIGHT * (seconds - mean)

    def observe_all(self, started: Sequence[float], ended: Sequence[float]) -> None:
        """Add runs that began and ended at these times, in order. The result is that of `observe`
        for each run.
        """
        mean = self.mean_s
        for begin, end in zip(started, ended, strict=True):
            seconds = end - begin
            if mean is None or seconds > 4 * mean:
                mean = seconds
            else:
                mean += _WEIGHT * (seconds - mean)
        self.mean_s = mean


_USUAL = frozenset({"CPU", "GPU", "memory"})


class ClassKey(msgspec.Struct, frozen=True):
    """The properties that tasks must share to use each other's workers."""

    resources: tuple[tuple[str, float], ...]
    environment: bytes
    strategy: bytes
    queue: str
    priority: int
    single: bool
    """Whether each worker gets one task at a time: the tasks have a time limit, or a worker may run
    only a limited number of them.
    """
    once: bool = False
    """Whether workers of the class are returned as soon as its queue is empty, because no more
    tasks are expected.
    """
    each: bool = False
    """Whether each task gets a worker of its own.

    Otherwise tasks that must be spread would gather on the node of the first worker. For work in a
    whole placement group, a worker must be requested for each task.
    """
    near: bytes = b""
    """The other node that has most bytes of the arguments; "" if no other node has more than this
    one.

    Workers on any other node are returned when nothing is queued, because the next task may be able
    to run near its arguments.
    """
    retriable: bool = True
    """Whether the tasks run again if their worker dies. When memory is short, the node ends such
    workers first.
    """

    @property
    def is_special(self) -> bool:
        """Whether the class requests a resource that a user has defined."""
        return any(name not in _USUAL for name, _ in self.resources)


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """A remote function with one set of options, which are evaluated once."""

    function: FunctionRecord
    key: ClassKey
    name: str
    returns: int
    """The number of results; -1 for a stream, -2 for a dynamic generator."""
    max_retries: int
    retry_exceptions: Any = False
    timeout_s: float | None = None
    backpressure: int = -1
    about: About = TASK_ALONE

    @property
    def goes_in_bursts(self) -> bool:
        """Whether calls with plain arguments may be submitted as bursts: each has one result, and
        many of them may be sent to a worker in advance.
        """
        key = self.key
        alone = key.single or key.each or key.once or self.timeout_s is not None
        return self.returns == 1 and self.max_retries != 0 and not alone


class TaskRecipe:
    """Makes a new task that runs a finished task again."""

    option = "max_retries"

    def __init__(self, template: Template) -> None:
        self.name = f"task {template.name}"
        self.returns = template.returns
        self.allowed = template.max_retries
        if template.returns < 0:
            # Nobody reads the items in order, so the generator must not be held back.
            template = msgspec.structs.replace(template, backpressure=-1)
        self._template = template

    def refusal(self) -> str:
        """Return "": a task can always run again."""
        return ""

    def renew(self, number: int, args: Payload) -> PendingTask:
        return PendingTask(number, self._template, args, None, None, [])


class PendingTask(PendingWork):
    """A task, from its submission to its last result."""

    __slots__ = ("created", "deadline", "key", "state", "template", "went_with", "worker")

    def __init__(
        self,
        number: int,
        template: Template,
        args: Payload,
        inputs: list[ObjectRef[Any]] | None,
        pins: list[Any] | None,
        refs: list[ObjectRef[Any]],
    ) -> None:
        self.number = number
        self.template = template
        self.key = template.key
        """The scheduling class of the task: that of the template, or a narrower one near the task's
        arguments.
        """
        self.args = args
        self.inputs = inputs
        self.pins = pins
        self.refs = refs
        self.retries = template.max_retries
        self.state = PENDING_NODE if inputs is None else PENDING_ARGS
        self.attempt = 0
        self.created = 0.0
        """The time when the task was submitted, in seconds since the epoch."""
        self.parent = None
        self.missing = 0
        self.worker: LeasedWorker | None = None
        self.cancelled = ""
        self.stream = None
        self.went_with: tuple[bytes, ...] = ()
        """The prefixes of the nodes that were lost while the task ran there, and the ids of the
        workers whose parents the task has killed.
        """
        self.deadline: float | None = None
        """The end of the task's time limit, on the owner's clock; None if the task has no limit."""
        self.on_ready = None

    @property
    def connection(self) -> Connection | None:
        """The connection to the worker that has the task; None if no worker has it."""
        return None if self.worker is None else self.worker.connection

    @property
    def is_listed(self) -> bool:
        """Whether listings show the task."""
        return self.template.about.is_listed

    def recipe(self) -> TaskRecipe:
        return TaskRecipe(self.template)


class TaskBurst(Burst[PendingTask]):
    """Tasks of one template with consecutive numbers, in the same state."""

    __slots__ = ("state", "template", "worker")

    def __init__(
        self,
        unfinished: Unfinished[PendingTask, Any],
        first: int,
        parent: Parent | None,
        template: Template,
    ) -> None:
        super().__init__(unfinished, first, parent)
        self.template = template
        self.state = PENDING_NODE
        self.worker: LeasedWorker | None = None

    @property
    def key(self) -> ClassKey:
        """The scheduling class of the tasks."""
        return self.template.key

    @property
    def retries(self) -> int:
        """How often each task may be retried."""
        return self.template.max_retries

    @property
    def is_listed(self) -> bool:
        return self.template.about.is_listed

    def _like(self) -> Self:
        burst = type(self)(self.unfinished, self.first, self.parent, self.template)
        burst.state, burst.worker = self.state, self.worker
        return burst

    def _record(
        self, number: int, args: Payload, ref: ObjectRef[Any], created: float
    ) -> PendingTask:
        task = PendingTask(number, self.template, args, None, None, [ref])
        task.state, task.worker = self.state, self.worker
        task.created, task.parent = created, self.parent
        return task


class LeasedWorker:
    """A worker that the node lent to this owner, and the tasks sent to it."""

    __slots__ = (
        "connection",
        "died",
        "ended",
        "functions_sent",
        "idle_since",
        "inflight",
        "is_stopping",
        "lease",
        "leaving",
        "once",
        "recalled",
        "scheduling_class",
        "sent_at",
        "worker",
    )

    def __init__(self, lease: int, worker: bytes, scheduling_class: SchedulingClass) -> None:
        self.lease = lease
        self.worker = worker
        self.scheduling_class = scheduling_class
        key = scheduling_class.key
        self.once = key.once or not worker.startswith(key.near)
        """Whether the worker is returned as soon as there is no task for it."""
        self.inflight: Pipeline[PendingTask, TaskBurst] = Pipeline()
        self.connection: Connection | None = None
        self.functions_sent: set[bytes] = set()
        """The keys of the functions that were sent over the worker's connection."""
        self.is_stopping = False
        """Whether the worker gets no more tasks: others wait for it, it will end, or it is gone."""
        self.leaving = False
        """Whether the worker's process will end as planned, so that it is not used again."""
        self.recalled = False
        self.idle_since = 0.0
        self.sent_at = 0.0
        self.died: tuple[str, str] | None = None
        """(reason, kind) after the node has reported that the process has ended."""
        self.ended = False
        """Whether the worker's connection has ended, so that all its results have come."""


class SchedulingClass:
    """Tasks that may use the same workers, with their queue and the leased workers."""

    __slots__ = (
        "announced",
        "granted",
        "idle",
        "is_over",
        "key",
        "number",
        "queue",
        "refusal",
        "workers",
    )

    def __init__(self, number: int, key: ClassKey) -> None:
        self.number = number
        self.key = key
        self.queue: WorkQueue[PendingTask, TaskBurst] = WorkQueue()
        self.workers: list[LeasedWorker] = []
        self.idle: list[LeasedWorker] = []
        self.announced = 0
        """How many workers this class last requested from the node."""
        self.granted = 0
        """How many workers the node has granted so far."""
        self.is_over = False
        """Whether no more tasks will come. The class is then forgotten together with its last
        worker.
        """
        self.refusal = ""
        """Why no task of this class can run now, as the node reported it."""
