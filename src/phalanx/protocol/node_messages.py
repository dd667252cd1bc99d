"""Messages between a process and its node, about leases, actors, files of objects and ends of
processes.

A driver asks its node for workers, and sends all its requests to the head through its node. A
worker gets its work from its node, and reports the outcome.
"""

from __future__ import annotations

from typing import Any

import msgspec

from phalanx.model.ids import GroupId
from phalanx.model.jobs.gang_view import NO_VIEW, EncodedView
from phalanx.model.system_settings import SystemSettings
from phalanx.observe.state.query import StatePart, StateQuery
from phalanx.protocol.asking import Ask, Reply

PREEMPTED = "preempted"
"""The kind of end of a worker that was ended to make room for other work; such an end costs the
task or actor no retry.
"""


OVER = -1
"""The value of `LeaseWanted.count` for a class that will never want workers again, so that the node
can forget the class.
"""


class LeaseWanted(msgspec.Struct, array_like=True, tag=32):
    """Owner to node: the sender wants `count` more workers of this class (0 for no more workers,
    OVER for never again).

    `seen`: the number of grants that the sender had received; later grants count against `count`.
    """

    scheduling_class: int
    resources: dict[str, float]
    count: int
    environment: bytes = b""
    strategy: dict[str, Any] = {}
    priority: int = 0
    queue: str = ""
    seen: int = 0
    retriable: bool = True
    """Whether the tasks are retried when their worker is ended for lack of memory."""


class Granted(msgspec.Struct, array_like=True, tag=33):
    """Node to owner: a worker for `scheduling_class`, which can be reached under its process id."""

    scheduling_class: int
    lease: int
    worker: bytes
    resources: dict[str, float]
    devices: dict[str, list[int]]
    gang: EncodedView = NO_VIEW
    variables: dict[str, str] = {}
    """The environment variables that tell the work what it may use of shared GPUs."""


class Refused(msgspec.Struct, array_like=True, tag=34):
    """Node to owner: there is no worker for this class.

    With `fatal` the tasks fail; without it the message is a warning, and the tasks wait. `code`:
    the code of the error with which tasks fail (`protocol.wire_errors`).
    """

    scheduling_class: int
    reason: str
    fatal: bool
    code: str = ""


class LeaseReturned(msgspec.Struct, array_like=True, tag=35):
    """The sender no longer needs this lease. `reusable`: whether the worker may serve other
    owners.
    """

    lease: int
    reusable: bool = True


class LeaseDue(msgspec.Struct, array_like=True, tag=36):
    """Return this lease when its running task has ended, because other owners wait."""

    lease: int


class Blocked(msgspec.Struct, array_like=True, tag=37):
    """The sender's task waits in `get`, so its CPUs may be lent to others."""


class Unblocked(msgspec.Struct, array_like=True, tag=38):
    """The sender's task continues after Blocked, so it needs its CPUs again."""


PARENT = "parent"


class WorkerDied(msgspec.Struct, array_like=True, tag=39):
    """A worker has ended.

    `reason` is for display. `kind` is crashed, oom, exited, killed, preempted, parent (the worker's
    parent process was killed, most likely by the worker) or node (the worker's node was lost).
    """

    worker: bytes
    reason: str
    kind: str


class KillWorker(msgspec.Struct, array_like=True, tag=40):
    """Owner to node: end the worker behind lease `lease` immediately."""

    lease: int


class CreateActor(msgspec.Struct, array_like=True, tag=41):
    """Node to worker: make this actor, and run its calls from now on."""

    actor: bytes
    incarnation: int
    creation: bytes
    resources: dict[str, float]
    devices: dict[str, list[int]]
    job: bytes = b""
    name: str = ""
    namespace: str = ""
    placement_group: GroupId | None = None
    capture: bool = False
    gang: EncodedView = NO_VIEW
    lived_before: bool = False
    """Whether the actor existed before and now restarts. A program can ask the runtime context for
    this.
    """
    variables: dict[str, str] = {}
    """The environment variables, as in Granted."""


class ActorReady(msgspec.Struct, array_like=True, tag=42):
    """Worker to node: the constructor has returned.

    `repr_name`: the actor's own name for itself, if its class has a `__repr__`.
    """

    actor: bytes
    repr_name: str = ""


class ActorFailed(msgspec.Struct, array_like=True, tag=43):
    """Worker to node: the constructor raised an error; `error` is its pickle."""

    actor: bytes
    error: bytes


class ActorLeaving(msgspec.Struct, array_like=True, tag=44):
    """Worker to node: the actor ends itself, and must not be restarted."""

    actor: bytes
    reason: str


class WorkerLeaving(msgspec.Struct, array_like=True, tag=133):
    """Worker to node: the worker's process ends on purpose, so its end is no crash."""

    reason: str


class WorkerEnding(msgspec.Struct, array_like=True, tag=141):
    """Worker to node: the work is done and the results were sent. The process now runs its exit
    handlers and ends.
    """


class ActorUpdate(msgspec.Struct, array_like=True, tag=45):
    """Node to each process that watches the actor: the actor's worker, or the reason why it has
    none.

    `error`: the pickled error that its constructor raised. `code`: the code of the error that
    prevented the actor's placement. `repr_name`: the actor's own name for itself.
    """

    actor: bytes
    state: str
    incarnation: int
    worker: bytes = b""
    reason: str = ""
    error: bytes = b""
    code: str = ""
    repr_name: str = ""


class ActorUnreferenced(msgspec.Struct, array_like=True, tag=46):
    """Owner to node: no handle of the actor exists any more."""

    actor: bytes


class Terminate(msgspec.Struct, array_like=True, tag=47):
    """Node to worker: finish the running work and end."""

    reason: str


class Sealed(msgspec.Struct, array_like=True, tag=48):
    """The sender wrote an object of `size` bytes into shared memory."""

    name: str
    size: int


class Dropped(msgspec.Struct, array_like=True, tag=49):
    """An object's file was deleted, or may be deleted. Its `size` bytes are free in the object
    store again.
    """

    name: str
    size: int


class Spilled(msgspec.Struct, array_like=True, tag=50):
    """Node to the objects' writer: unmap these objects, which are now on disk or deleted."""

    names: list[str]


class Used(msgspec.Struct, array_like=True, tag=57):
    """The sender has mapped an object, so the object counts as just used."""

    name: str


class Unwanted(msgspec.Struct, array_like=True, tag=128):
    """The sender no longer needs a copy of this object: it neither waits for the copy nor maps
    it.
    """

    name: str


class GivenBack(msgspec.Struct, array_like=True, tag=129):
    """Owner to node, and node to the writer: this object is no longer needed, and the writer may
    use its file for a new object.
    """

    name: str


class LogLine(msgspec.Struct, array_like=True, tag=51):
    """Node to driver: a worker printed a line."""

    pid: int
    name: str
    line: str
    is_error: bool


class Stop(msgspec.Struct, array_like=True, tag=52):
    """End this process."""

    reason: str = ""


class JobSetup(msgspec.Struct, array_like=True, tag=53):
    """Node to worker: a job's import path, working directory and environment, and the cluster's
    settings.

    With the driver's `authkey` the worker can connect to processes that the driver started with
    multiprocessing, as the driver's own children can.
    """

    job: bytes
    path: list[str]
    directory: str
    environment: dict[str, str] = {}
    namespace: str = ""
    hook: bytes = b""
    queue: str = ""
    priority: int = 0
    authkey: bytes = b""
    settings: SystemSettings = SystemSettings()
    umask: int = -1
    """The driver's umask, for files that the driver's work creates; -1 if unknown."""


class Events(msgspec.Struct, array_like=True, tag=54):
    """Process to node: records of `count` finished attempts, for timelines and listings
    (`observe.task_journal.encode_runs`).
    """

    count: int
    runs: bytes


class Claimed(msgspec.Struct, array_like=True, tag=55):
    """Owner to node: this shared object, which another process wrote, belongs to the sender."""

    name: str


class Settled(msgspec.Struct, array_like=True, tag=56):
    """Process to node: the sender has claimed all objects that a dead worker had sent to it."""

    worker: bytes


class ReadersReported(msgspec.Struct, array_like=True, tag=58):
    """Process to node, after the death of another node: the sender has now named every object of
    that node that it may still read, each in a Used message.
    """

    prefix: bytes


class GatherRows(msgspec.Struct, array_like=True, tag=59):
    """Node to process: send the rows for a listing. The process answers with RowsReported. `ip`:
    the node's address.
    """

    number: int
    query: StateQuery
    ip: str = ""


class RowsReported(msgspec.Struct, array_like=True, tag=62):
    """Process to node: its rows for a listing."""

    number: int
    part: StatePart


class ProcessNumbers(msgspec.Struct, array_like=True, tag=121):
    """Process to node: the sender's counts since its last such message, and the values of the
    gauges that were set since.

    Counts and values are a list of `observe.metrics.definitions.Numbers`, as msgpack.
    """

    numbers: bytes


class Kept(msgspec.Struct, array_like=True, tag=132):
    """Process to node: an object that the sender wrote is no longer needed. The sender keeps the
    file for its next object, until the node needs the memory.
    """

    name: str


NodeMessage = (
    Ask
    | Reply
    | LeaseWanted
    | Granted
    | Refused
    | LeaseReturned
    | LeaseDue
    | Blocked
    | Unblocked
    | WorkerDied
    | KillWorker
    | CreateActor
    | ActorReady
    | ActorFailed
    | ActorLeaving
    | WorkerLeaving
    | WorkerEnding
    | ActorUpdate
    | ActorUnreferenced
    | Terminate
    | Sealed
    | Dropped
    | Kept
    | Spilled
    | GivenBack
    | Unwanted
    | Used
    | LogLine
    | Stop
    | JobSetup
    | Events
    | Claimed
    | Settled
    | ReadersReported
    | GatherRows
    | RowsReported
    | ProcessNumbers
)
