"""What a process and its node say to each other: leases, actors, files of objects, ends.

A driver asks its node for workers and for whatever the head knows; a worker gets its
work, and reports what became of it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from phalanx.model.system_settings import SystemSettings
from phalanx.observe.state.query import StatePart, StateQuery
from phalanx.protocol.wire_errors import WireError

PREEMPTED = "preempted"
"""The kind of a worker's end that others wanted: it costs its task or actor nothing."""


class Ask(msgspec.Struct, array_like=True, tag=30):
    """Process to node: a request of `protocol.requests`, by its kind; answered by a Reply with the
    same token, unless that is 0."""

    token: int
    kind: int
    body: msgspec.Raw
    user: str = ""
    """Who asks, as the asking process says; for people to read, and no right rests on it."""


class Reply(msgspec.Struct, array_like=True, tag=31):
    """Node to process: the msgpack of the request's result, or an error."""

    token: int
    result: msgspec.Raw
    error: WireError | None = None


OVER = -1
"""Instead of a count of workers: this class will not want any more, ever; it may be forgotten."""


class LeaseWanted(msgspec.Struct, array_like=True, tag=32):
    """The sender would use `count` more workers of this class (0 withdraws, OVER ends it).

    `seen` is how many were granted to it so far when it said so: later ones count against `count`.
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
    """Whether its tasks run again when their worker is ended for want of memory."""


class Granted(msgspec.Struct, array_like=True, tag=33):
    """A worker for `scheduling_class`, reachable under its process id."""

    scheduling_class: int
    lease: int
    worker: bytes
    resources: dict[str, float]
    devices: dict[str, list[int]]
    gang: bytes = b""


class Refused(msgspec.Struct, array_like=True, tag=34):
    """No worker for this class: only a warning (its tasks wait), or `fatal`: they fail, with the
    error of this code (`protocol.wire_errors`)."""

    scheduling_class: int
    reason: str
    fatal: bool
    code: str = ""


class LeaseReturned(msgspec.Struct, array_like=True, tag=35):
    """The sender needs lease `lease` no longer; `reusable` when its worker may serve again."""

    lease: int
    reusable: bool = True


class LeaseDue(msgspec.Struct, array_like=True, tag=36):
    """Somebody else waits: give lease `lease` back when its running task is done."""

    lease: int


class Blocked(msgspec.Struct, array_like=True, tag=37):
    """The sender's task waits in get: its CPUs may be lent."""


class Unblocked(msgspec.Struct, array_like=True, tag=38):
    """The sender's task goes on."""


class WorkerDied(msgspec.Struct, array_like=True, tag=39):
    """A worker is gone. `reason` is for people; `kind` is crashed, oom, exited, killed
    or preempted."""

    worker: bytes
    reason: str
    kind: str


class KillWorker(msgspec.Struct, array_like=True, tag=40):
    """Owner to node: end the worker behind lease `lease` at once."""

    lease: int


class CreateActor(msgspec.Struct, array_like=True, tag=41):
    """Node to worker: become this actor."""

    actor: bytes
    incarnation: int
    creation: bytes
    resources: dict[str, float]
    devices: dict[str, list[int]]
    job: bytes = b""
    name: str = ""
    namespace: str = ""
    placement_group: bytes | None = None
    capture: bool = False
    gang: bytes = b""
    lived_before: bool = False
    """Whether it was made before, and restarts: its program may ask."""


class ActorReady(msgspec.Struct, array_like=True, tag=42):
    """Worker to node: the constructor returned. `repr_name`: what the actor calls itself, where its
    class has a `__repr__`."""

    actor: bytes
    repr_name: str = ""


class ActorFailed(msgspec.Struct, array_like=True, tag=43):
    """Worker to node: the constructor raised `error` (pickled)."""

    actor: bytes
    error: bytes


class ActorLeaving(msgspec.Struct, array_like=True, tag=44):
    """Worker to node: the actor ends by its own will; do not restart it."""

    actor: bytes
    reason: str


class WorkerLeaving(msgspec.Struct, array_like=True, tag=133):
    """Worker to node: its process ends by plan, which is no crash."""

    reason: str


class WorkerEnding(msgspec.Struct, array_like=True, tag=141):
    """Worker to node: its work is done and its results have left; its process runs the handlers of
    its exit, and ends."""


class ActorUpdate(msgspec.Struct, array_like=True, tag=45):
    """Node to watchers: where the actor is, or why it is not: `error` is what its constructor
    raised (pickled), `code` that of the error for which it could not be placed. `repr_name`: what
    it calls itself."""

    actor: bytes
    state: str
    incarnation: int
    worker: bytes = b""
    reason: str = ""
    error: bytes = b""
    code: str = ""
    repr_name: str = ""


class ActorUnreferenced(msgspec.Struct, array_like=True, tag=46):
    """Owner to node: the last handle is gone."""

    actor: bytes


class Terminate(msgspec.Struct, array_like=True, tag=47):
    """Node to worker: finish what you have and end."""

    reason: str


class Sealed(msgspec.Struct, array_like=True, tag=48):
    """The sender wrote an object of `size` bytes into shared memory."""

    name: str
    size: int


class Dropped(msgspec.Struct, array_like=True, tag=49):
    """An object's file is gone, or may go; `bytes` return to the store."""

    name: str
    size: int


class Spilled(msgspec.Struct, array_like=True, tag=50):
    """Node to the writer: these objects are on disk now, or gone; let go of their memory."""

    names: list[str]


class Used(msgspec.Struct, array_like=True, tag=57):
    """The sender has mapped an object: it is not the least recently used one."""

    name: str


class Unwanted(msgspec.Struct, array_like=True, tag=128):
    """The sender neither waits for a copy of this object any more nor maps it: it gave up."""

    name: str


class GivenBack(msgspec.Struct, array_like=True, tag=129):
    """Owner to node, and node to the writer: this object is gone, and its file is the writer's."""

    name: str


class LogLine(msgspec.Struct, array_like=True, tag=51):
    """Node to driver: a worker printed something."""

    pid: int
    name: str
    line: str
    is_error: bool


class Stop(msgspec.Struct, array_like=True, tag=52):
    """End yourself."""

    reason: str = ""


class JobSetup(msgspec.Struct, array_like=True, tag=53):
    """Node to worker: the job's import path, working directory and environment, and the cluster's
    settings. With the driver's `authkey` the worker speaks with what that started by
    multiprocessing, as its children do."""

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
    """The driver's, for files that its work makes; -1: nobody says."""


class Events(msgspec.Struct, array_like=True, tag=54):
    """Process to node: so many attempts that have finished (`observe.task_journal.encode_runs`),
    for timelines and listings."""

    count: int
    runs: bytes


class Claimed(msgspec.Struct, array_like=True, tag=55):
    """Owner to node: this shared object, which another process wrote, is the sender's."""

    name: str


class Settled(msgspec.Struct, array_like=True, tag=56):
    """Process to node: what a worker that died had sent to the sender is claimed by now."""

    worker: bytes


class ReadersReported(msgspec.Struct, array_like=True, tag=58):
    """Process to node, after the death of another: what it may still read of that node's objects
    it has named by Used."""

    prefix: bytes


class GatherRows(msgspec.Struct, array_like=True, tag=59):
    """Node to process: what it has for a listing; answered by RowsReported. `ip`: of the node."""

    number: int
    query: StateQuery
    ip: str = ""


class RowsReported(msgspec.Struct, array_like=True, tag=62):
    """Process to node."""

    number: int
    part: StatePart


class ProcessNumbers(msgspec.Struct, array_like=True, tag=121):
    """Process to node: what it has counted since the last of these, and gauges that were set (a
    list of `observe.metrics.definitions.Numbers`, as msgpack)."""

    numbers: bytes


class Kept(msgspec.Struct, array_like=True, tag=132):
    """Process to node: an object that the sender wrote is gone. It keeps the file for its next one,
    until the memory is needed."""

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
