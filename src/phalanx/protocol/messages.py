"""Everything that processes say to each other, as msgspec structs.

A frame carries a list of messages. Users' values travel as opaque bytes: only owners and workers
unpickle them, never the node or the control store. Objects are named by (owner, number), see
`phalanx.model.ids`. Times are seconds since the epoch.
"""

from __future__ import annotations

from typing import Any

import msgspec

from phalanx.protocol.cluster_messages import ClusterMessage

PROTOCOL_VERSION = 3

INLINE, SHARED, FAILED = 0, 1, 2
PREEMPTED = "preempted"
"""The kind of a worker's end that others wanted: it costs its task or actor nothing."""


class Value(msgspec.Struct, array_like=True, gc=False):
    """A value that is more than one pickle: buffers beside it, references in it, or an error.

    kind INLINE: `data` is the pickle, `buffers` its out-of-band buffers. kind SHARED: `data` is
    the ASCII name of the object's file in shared memory, `size` its bytes. kind FAILED: `data`
    is a pickled exception. `refs` are the objects that the value refers to, in order.
    """

    kind: int
    data: bytes
    buffers: list[bytes] = []
    refs: list[tuple[bytes, int]] = []
    size: int = 0


Payload = bytes | Value
"""Plain bytes are a pickle with nothing beside it, by far the commonest case."""


class Hello(msgspec.Struct, array_like=True, tag=0):
    """First message in each direction: who is there."""

    version: int
    process: bytes
    kind: str  # driver, worker, node
    pid: int
    again: bool = False
    """Whether a connection between these two ended that had been there."""


# ---- owner to worker -------------------------------------------------------------------------


class Lease(msgspec.Struct, array_like=True, tag=1):
    """This worker now works for the sender, with these resources and device numbers."""

    lease: int
    job: bytes
    resources: dict[str, float]
    devices: dict[str, list[int]]
    placement_group: bytes | None = None
    capture: bool = False
    gang: bytes = b""
    """What the member of a gang is told of it (`model.jobs.gang_view`)."""


class Function(msgspec.Struct, array_like=True, tag=2):
    """A function's or class's definition, sent once per connection."""

    function: bytes
    pickle: bytes
    name: str
    max_calls: int = 0


class Task(msgspec.Struct, array_like=True, tag=3, gc=False):
    """Run `function`. `args` is empty when there are none; `inputs`: values of top-level refs."""

    number: int
    function: bytes
    args: Payload = b""
    inputs: list[Payload] = []
    returns: int = 1
    """-1: a stream, -2: a dynamic generator."""
    name: str = ""
    attempt: int = 0
    backpressure: int = -1


class Call(msgspec.Struct, array_like=True, tag=4, gc=False):
    """Run an actor's method; fields as in Task."""

    number: int
    method: str
    args: Payload = b""
    inputs: list[Payload] = []
    returns: int = 1
    group: str = ""
    attempt: int = 0
    backpressure: int = -1
    actor: bytes = b""


class Cancel(msgspec.Struct, array_like=True, tag=5):
    """Stop task `number` of the sender, and its children when `recursive`."""

    number: int
    recursive: bool
    reason: str = ""


class Consumed(msgspec.Struct, array_like=True, tag=6):
    """The reader of stream `number` has taken `count` items so far."""

    number: int
    count: int


class Recall(msgspec.Struct, array_like=True, tag=7):
    """Give back what has not been started."""


class Unlease(msgspec.Struct, array_like=True, tag=8):
    """The sender has no more work for this worker."""


# ---- worker to owner -------------------------------------------------------------------------


class Done(msgspec.Struct, array_like=True, tag=10, gc=False):
    """Task `number` gave `value` (a list for several returns, the count for a stream)."""

    number: int
    value: bytes | Value
    started: float
    ended: float
    more: list[Payload] = []


class Failed(msgspec.Struct, array_like=True, tag=11):
    """Task `number` raised. `error` is pickled; `cancelled` when it was asked to stop; `lost` when
    values of its arguments were not there: then `error` names their files, and it did not run."""

    number: int
    error: bytes
    started: float
    ended: float
    kind: str = ""  # "", "cancelled", "lost", "exit" (the actor left on its own will)
    retriable: bool = True


class Item(msgspec.Struct, array_like=True, tag=12, gc=False):
    """One value of stream `number`, at `index` (from 1)."""

    number: int
    index: int
    value: bytes | Value


class Returned(msgspec.Struct, array_like=True, tag=13):
    """These tasks were not started and are the owner's again."""

    numbers: list[int]


class Leaving(msgspec.Struct, array_like=True, tag=14):
    """The worker ends by plan (max_calls reached): no more work, please."""


# ---- objects, between any two processes ------------------------------------------------------


class Fetch(msgspec.Struct, array_like=True, tag=20):
    """Tell me the value of your object `number` when it is there."""

    number: int


class Fetched(msgspec.Struct, array_like=True, tag=21):
    """The value of object `number` of the sender."""

    number: int
    value: bytes | Value


class Borrow(msgspec.Struct, array_like=True, tag=22):
    """The sender holds references to these objects of yours."""

    numbers: list[int]


class Unborrow(msgspec.Struct, array_like=True, tag=23):
    """The sender holds them no longer: (object, how many registrations that undoes)."""

    counts: list[tuple[int, int]]


class Holds(msgspec.Struct, array_like=True, tag=28):
    """First on a connection after another had ended: all objects of yours that the sender holds,
    and how many registrations each of them has."""

    counts: list[tuple[int, int]]


class Sync(msgspec.Struct, array_like=True, tag=24):
    """Answer with Synced once all before this is handled."""

    token: int


class Synced(msgspec.Struct, array_like=True, tag=25):
    """All before Sync `token` is handled."""

    token: int


class Taken(msgspec.Struct, array_like=True, tag=26):
    """The receiver of result `number` has registered with the owners of the refs in it."""

    number: int


class CancelOwned(msgspec.Struct, array_like=True, tag=27):
    """A borrower asks the owner to cancel the task behind object `number`."""

    number: int
    force: bool
    recursive: bool


class Recover(msgspec.Struct, array_like=True, tag=61):
    """A reader did not find file `name`, the value of your object `number`: have it made again,
    unless that was done, and answer with Fetched."""

    number: int
    name: str


# ---- process and node ------------------------------------------------------------------------


class Request(msgspec.Struct, array_like=True, tag=30):
    """A question to the node; the answer carries the same token."""

    token: int
    method: str
    args: dict[str, Any] = {}


class Reply(msgspec.Struct, array_like=True, tag=31):
    """The answer: a result, or an error's class name and text."""

    token: int
    result: Any = None
    error: tuple[str, str] | None = None


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


class Granted(msgspec.Struct, array_like=True, tag=33):
    """A worker for `scheduling_class`, reachable under its process id."""

    scheduling_class: int
    lease: int
    worker: bytes
    resources: dict[str, float]
    devices: dict[str, list[int]]
    gang: bytes = b""


class Refused(msgspec.Struct, array_like=True, tag=34):
    """No worker for this class: `fatal` (its tasks fail) or only a warning (they wait)."""

    scheduling_class: int
    reason: str
    fatal: bool
    error: str = ""


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


class ActorReady(msgspec.Struct, array_like=True, tag=42):
    """Worker to node: the constructor returned."""

    actor: bytes


class ActorFailed(msgspec.Struct, array_like=True, tag=43):
    """Worker to node: the constructor raised `error` (pickled)."""

    actor: bytes
    error: bytes


class ActorLeaving(msgspec.Struct, array_like=True, tag=44):
    """Worker to node: the actor ends by its own will; do not restart it."""

    actor: bytes
    reason: str


class ActorUpdate(msgspec.Struct, array_like=True, tag=45):
    """Node to watchers: where the actor is, or why it is not."""

    actor: bytes
    state: str
    incarnation: int
    worker: bytes = b""
    reason: str = ""
    error: bytes = b""


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
    """Node to the writer: these objects are on disk now; let go of their memory."""

    names: list[str]


class Used(msgspec.Struct, array_like=True, tag=57):
    """The sender has mapped an object: it is not the least recently used one."""

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
    """Node to worker: the job's import path, working directory and environment."""

    job: bytes
    path: list[str]
    directory: str
    environment: dict[str, str] = {}
    namespace: str = ""
    hook: bytes = b""
    queue: str = ""
    priority: int = 0


class Events(msgspec.Struct, array_like=True, tag=54):
    """Process to node: transitions recorded, for timelines."""

    rows: list[tuple[Any, ...]]


class Claimed(msgspec.Struct, array_like=True, tag=55):
    """Owner to node: this shared object, which another process wrote, is the sender's."""

    name: str


class Settled(msgspec.Struct, array_like=True, tag=56):
    """Process to node: what a worker that died had sent to the sender is claimed by now."""

    worker: bytes


class ReadersTold(msgspec.Struct, array_like=True, tag=58):
    """Process to node, after the death of another: what it may still read of that node's objects
    it has named by Used."""

    prefix: bytes


class Handed(msgspec.Struct, array_like=True, tag=60):
    """Gateway to process: the socket passed with this frame leads to a process of another node."""

    address: str


Message = (
    Hello
    | Lease
    | Function
    | Task
    | Call
    | Cancel
    | Consumed
    | Recall
    | Unlease
    | Done
    | Failed
    | Item
    | Returned
    | Leaving
    | Fetch
    | Fetched
    | Borrow
    | Unborrow
    | Holds
    | Sync
    | Synced
    | Taken
    | CancelOwned
    | Recover
    | Request
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
    | ActorUpdate
    | ActorUnreferenced
    | Terminate
    | Sealed
    | Dropped
    | Spilled
    | Used
    | LogLine
    | Stop
    | JobSetup
    | Events
    | Claimed
    | Settled
    | ReadersTold
    | Handed
    | ClusterMessage
)
