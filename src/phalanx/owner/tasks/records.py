"""The record of one task at its owner: its function, its arguments, its future results."""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from phalanx.model.lifecycle import PENDING_ARGS, PENDING_NODE
from phalanx.objects.reference import ObjectRef
from phalanx.observe.task_journal import TASK_ALONE, About
from phalanx.owner.transport import Connection
from phalanx.owner.work import PendingWork
from phalanx.protocol.messages import Payload

_WEIGHT = 0.2
"""The weight of a new run time in the average."""


class FunctionRecord:
    """A remote function or class as its owner sends it: definition, name, mean run time."""

    __slots__ = ("failed", "key", "max_calls", "mean_s", "name", "pickle")

    def __init__(self, key: bytes, name: str, pickle: bytes, max_calls: int = 0) -> None:
        self.key = key
        self.name = name
        self.pickle = pickle
        self.max_calls = max_calls
        """Calls after which the worker ends; 0: never."""
        self.mean_s: float | None = None
        """Exponential average of run times in seconds (seed 003); None before the first."""
        self.failed = False
        """Whether a worker that ran it died recently: then its tasks are sent one at a time."""

    def observe(self, seconds: float) -> None:
        """Add the seconds that one run took."""
        mean = self.mean_s
        if mean is None:
            self.mean_s = seconds
        elif seconds > 4 * mean:
            self.mean_s = seconds  # believe bad news at once: it bounds what queues behind it
        else:
            self.mean_s = mean + _WEIGHT * (seconds - mean)


_USUAL = frozenset({"CPU", "GPU", "memory"})


class ClassKey(msgspec.Struct, frozen=True):
    """The properties that tasks share when they may use each other's workers."""

    resources: tuple[tuple[str, float], ...]
    environment: bytes
    strategy: bytes
    queue: str
    priority: int
    single: bool
    """One task in flight per worker: its function must not be mixed, or must be timed."""
    once: bool = False
    """Whether its workers go back once its queue is empty: no more tasks are expected."""
    each: bool = False
    """Whether each task gets a worker of its own.

    Spread tasks must not pile up where the first worker came, and tasks for a whole group must each
    be asked for.
    """
    near: bytes = b""
    """The other node that holds most bytes of the arguments, if any.

    Workers on other nodes go back once nothing is queued, since the next task may be able to run
    there.
    """
    retriable: bool = True
    """Whether they run again when their worker dies: the node ends such workers first."""

    @property
    def is_special(self) -> bool:
        """Whether it asks for a resource of the user's own."""
        return any(name not in _USUAL for name, _ in self.resources)


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """One remote function with one set of options, resolved once."""

    function: FunctionRecord
    key: ClassKey
    name: str
    returns: int
    """Number of values; -1 a stream, -2 a dynamic generator."""
    max_retries: int
    retry_exceptions: Any = False
    timeout_s: float | None = None
    backpressure: int = -1
    about: About = TASK_ALONE


class TaskRecipe:
    """Makes a new task that runs a finished one once more."""

    option = "max_retries"

    def __init__(self, template: Template) -> None:
        self.name = f"task {template.name}"
        self.returns = template.returns
        self.allowed = template.max_retries
        if template.returns < 0:
            # Nobody takes the items in turn, so nothing may hold the generator back.
            template = msgspec.structs.replace(template, backpressure=-1)
        self._template = template

    def refusal(self) -> str:
        """Return "": a task can always run again, as far as it is concerned."""
        return ""

    def renew(self, number: int, args: Payload) -> PendingTask:
        """Return the task again, without references."""
        return PendingTask(number, self._template, args, None, None, [])


class PendingTask(PendingWork):
    """A task between submission and its last result."""

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
        """Its scheduling class: the template's, or a narrower one near its arguments."""
        self.args = args
        self.inputs = inputs
        self.pins = pins
        self.refs = refs
        self.retries = template.max_retries
        self.state = PENDING_NODE if inputs is None else PENDING_ARGS
        self.attempt = 0
        self.created = 0.0
        """When it was submitted, in seconds since the epoch."""
        self.parent = None
        self.missing = 0
        self.worker: LeasedWorker | None = None
        self.cancelled = ""
        self.stream = None
        self.went_with: tuple[bytes, ...] = ()
        """The prefixes of nodes whose connections ended while it ran there."""
        self.deadline: float | None = None
        """When its time limit ends, on the owner's clock; None: it has no limit."""
        self.on_ready = None

    @property
    def connection(self) -> Connection | None:
        """The connection to the worker that has it, if any."""
        return None if self.worker is None else self.worker.connection

    def recipe(self) -> TaskRecipe:
        """Return the recipe that runs this task again."""
        return TaskRecipe(self.template)


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
        """Whether it goes back as soon as there is nothing for it to do."""
        self.inflight: dict[int, PendingTask] = {}
        self.connection: Connection | None = None
        self.functions_sent: set[bytes] = set()
        """The keys of the functions that were sent over its connection."""
        self.is_stopping = False
        """Whether it gets nothing more: others wait for it, it ends by plan, or it is gone."""
        self.leaving = False
        """Whether its process ends by plan: it is not used again."""
        self.recalled = False
        self.idle_since = 0.0
        self.sent_at = 0.0
        self.died: tuple[str, str] | None = None
        """(reason, kind) once the node has said that the process is gone."""
        self.ended = False
        """Whether its connection has ended: then all its results are in."""


class SchedulingClass:
    """Tasks that may use the same workers: their queue and the workers leased for them."""

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
        self.queue: deque[PendingTask] = deque()
        self.workers: list[LeasedWorker] = []
        self.idle: list[LeasedWorker] = []
        self.announced = 0
        """Workers that this class last asked the node for."""
        self.granted = 0
        """Workers that the node has granted so far."""
        self.is_over = False
        """Whether no task will come any more: the class goes with its last worker."""
        self.refusal = ""
        """Why nothing of this class can run now, in the node's words."""
