"""Messages between drivers and workers, and the union of all messages, as msgspec structs.

Messages between a process and its node are in `node_messages`. Messages between nodes and the head
are in `cluster_messages`, `membership_messages`, `report_messages`, `actor_messages` and
`bundle_messages`; messages about copies of objects are in `copy_messages`. A frame carries a list
of messages. Users' values travel as opaque bytes: only owners and workers unpickle them, never the
node or the head. Objects are named by (owner, number), see `phalanx.model.ids`. Times are seconds
since the epoch.
"""

from __future__ import annotations

import msgspec

from phalanx.model.ids import GroupId
from phalanx.model.jobs.gang_view import NO_VIEW, EncodedView
from phalanx.protocol.actor_messages import ActorMessage
from phalanx.protocol.bundle_messages import BundleMessage
from phalanx.protocol.cluster_messages import ClusterMessage
from phalanx.protocol.copy_messages import CopyMessage
from phalanx.protocol.membership_messages import MembershipMessage
from phalanx.protocol.node_messages import NodeMessage
from phalanx.protocol.report_messages import ReportMessage

PROTOCOL_VERSION = 12
"""The version of the messages; processes that speak another version are refused."""

INLINE, SHARED, FAILED = 0, 1, 2


class Value(msgspec.Struct, array_like=True, gc=False):
    """A value that is more than a single pickle, because it has buffers, contains references, or is
    an error.

    `kind` is its form. INLINE: `data` is the pickle, `buffers` its out-of-band buffers. SHARED:
    `data` is the ASCII name of the object's file in shared memory, and `size` its bytes. FAILED:
    `data` is a pickled exception. `refs` are the objects that the value refers to, in order.
    """

    kind: int
    data: bytes
    buffers: list[bytes] = []
    refs: list[tuple[bytes, int]] = []
    size: int = 0


Payload = bytes | Value
"""A value on the wire. Plain bytes are a single pickle, which is by far the most frequent case."""


class Hello(msgspec.Struct, array_like=True, tag=0):
    """The first message in each direction, which introduces the sender."""

    version: int
    process: bytes
    kind: str  # driver, worker, node
    pid: int
    again: bool = False
    """Whether the two processes had an earlier connection, which has ended."""
    forked_as: int = 0
    """The pid of the process that the fork server has forked for a worker in a container; 0 if it
    is the worker itself.
    """


# ---- owner to worker -------------------------------------------------------------------------


class Lease(msgspec.Struct, array_like=True, tag=1):
    """Run the sender's tasks from now on, with these resources and device numbers."""

    lease: int
    job: bytes
    resources: dict[str, float]
    devices: dict[str, list[int]]
    placement_group: GroupId | None = None
    capture: bool = False
    gang: EncodedView = NO_VIEW
    """The gang as the member that holds the lease sees it (`model.jobs.gang_view`)."""
    variables: dict[str, str] = {}
    """The environment variables that tell the work what it may use of shared GPUs."""


class Function(msgspec.Struct, array_like=True, tag=2):
    """The definition of a function or class, sent once per connection."""

    function: bytes
    pickle: bytes
    name: str
    max_calls: int = 0


class Task(msgspec.Struct, array_like=True, tag=3, gc=False):
    """Owner to worker: run a function. `args` is empty for a call without arguments. `inputs`: the
    values of the references that are arguments themselves.
    """

    number: int
    function: bytes
    args: Payload = b""
    inputs: list[Payload] = []
    returns: int = 1
    """The number of results; -1 for a stream, -2 for a dynamic generator."""
    name: str = ""
    attempt: int = 0
    backpressure: int = -1


class Tasks(msgspec.Struct, array_like=True, tag=15, gc=False):
    """Owner to worker: run a function once for each of several arguments, as tasks with consecutive
    numbers from `first` on.

    `args` is the pickle of a list. Each element is a tuple of plain positional arguments, or the
    pickle of (args, kwargs). Each task has one result, and is answered like a Task.
    """

    first: int
    function: bytes
    args: bytes
    name: str = ""


class Call(msgspec.Struct, array_like=True, tag=4, gc=False):
    """Owner to worker: run an actor's method. The fields are as in Task. `name`: the caller's name
    for the call, if any.
    """

    number: int
    method: str
    args: Payload = b""
    inputs: list[Payload] = []
    returns: int = 1
    group: str = ""
    attempt: int = 0
    backpressure: int = -1
    actor: bytes = b""
    name: str = ""


class Calls(msgspec.Struct, array_like=True, tag=17, gc=False):
    """Owner to worker: run an actor's method once for each of several arguments, as calls with
    consecutive numbers from `first` on. The fields are as in Tasks and in Call.
    """

    first: int
    method: str
    args: bytes
    group: str = ""
    actor: bytes = b""
    name: str = ""


class Cancel(msgspec.Struct, array_like=True, tag=5):
    """Stop the sender's task `number`, and with `recursive` also the tasks that it submitted."""

    number: int
    recursive: bool
    reason: str = ""


class Consumed(msgspec.Struct, array_like=True, tag=6):
    """The reader of stream `number` has taken `count` items so far."""

    number: int
    count: int


class Recall(msgspec.Struct, array_like=True, tag=7):
    """Owner to worker: return the tasks that have not started."""


class Unlease(msgspec.Struct, array_like=True, tag=8):
    """The sender has no more work for this worker."""


# ---- worker to owner -------------------------------------------------------------------------


class Done(msgspec.Struct, array_like=True, tag=10, gc=False):
    """Task `number` returned `value`: the result, a list of several results, or the number of items
    of a stream.
    """

    number: int
    value: bytes | Value
    started: float
    ended: float
    more: list[Payload] = []


class Results(msgspec.Struct, array_like=True, tag=16, gc=False):
    """Tasks or calls with consecutive numbers from `first` on have each returned a value, which is
    a single pickle.
    """

    first: int
    values: list[bytes]
    started: list[float]
    ended: list[float]

    def one(self, at: int) -> Done:
        """Return the message for one task or call."""
        return Done(self.first + at, self.values[at], self.started[at], self.ended[at])

    def part(self, at: int, count: int) -> Results:
        """Return the message for `count` tasks or calls, from position `at` on."""
        if count == len(self.values) == len(self.started) == len(self.ended):
            return self
        end = at + count
        columns = self.values[at:end], self.started[at:end], self.ended[at:end]
        return Results(self.first + at, *columns)


class Failed(msgspec.Struct, array_like=True, tag=11):
    """Task `number` raised an error, or did not run at all.

    `error` is the pickled error. `kind` is `cancelled` if the task was asked to stop. `kind` is
    `lost` if values of its arguments were missing: the task did not run, and `error` names the
    missing files. `values`: the first results of a generator with a fixed number of results.
    `summary`: the class of the error and the first line of its text, for listings.
    """

    number: int
    error: bytes
    started: float
    ended: float
    kind: str = ""  # "", "cancelled", "lost", "exit" (the actor ended itself)
    retriable: bool = True
    values: list[bytes | Value] = []
    summary: str = ""


class Item(msgspec.Struct, array_like=True, tag=12, gc=False):
    """One value of stream `number`, at `index` (from 1)."""

    number: int
    index: int
    value: bytes | Value


class Returned(msgspec.Struct, array_like=True, tag=13):
    """These tasks were not started. The owner may send them again."""

    numbers: list[int]


class Leaving(msgspec.Struct, array_like=True, tag=14):
    """The worker ends on purpose (it has reached max_calls): send no more work."""


# ---- objects, between any two processes ------------------------------------------------------


class Fetch(msgspec.Struct, array_like=True, tag=20):
    """A request for the value of object `number`, which the receiver owns. The answer, Fetched,
    comes when the value is ready.
    """

    number: int


class Fetched(msgspec.Struct, array_like=True, tag=21):
    """The value of object `number`, which the sender owns."""

    number: int
    value: bytes | Value


class Borrow(msgspec.Struct, array_like=True, tag=22):
    """The sender holds references to these objects of the receiver."""

    numbers: list[int]


class Unborrow(msgspec.Struct, array_like=True, tag=23):
    """The sender no longer holds references to these objects: (object, number of registrations to
    undo).
    """

    counts: list[tuple[int, int]]


class Holds(msgspec.Struct, array_like=True, tag=28):
    """All objects of the receiver to which the sender holds references, with the number of
    registrations of each. This message comes first on a connection that follows an earlier
    connection.
    """

    counts: list[tuple[int, int]]


class Sync(msgspec.Struct, array_like=True, tag=24):
    """Answer with Synced once all earlier messages are handled."""

    token: int


class Synced(msgspec.Struct, array_like=True, tag=25):
    """All messages before Sync `token` are handled."""

    token: int


class Taken(msgspec.Struct, array_like=True, tag=26):
    """The receiver of result `number` has registered with the owners of the references in that
    result.
    """

    number: int


class CancelOwned(msgspec.Struct, array_like=True, tag=27):
    """A borrower asks the owner to cancel the task behind object `number`."""

    number: int
    force: bool
    recursive: bool


class Recover(msgspec.Struct, array_like=True, tag=61):
    """The sender did not find the file `name` with the value of object `number`, which the receiver
    owns.

    The receiver computes the value again, unless it has done so already, and answers with Fetched.
    """

    number: int
    name: str


# ---- gateway to process ----------------------------------------------------------------------


class Handed(msgspec.Struct, array_like=True, tag=60):
    """Gateway to process: the socket that is passed with this frame leads to a process of another
    node.

    `token`: if a person or robot is at the other end instead, the id of its token.
    """

    address: str
    token: str = ""
    is_node: bool = False
    """Whether the token is the key of a node."""


Message = (
    Hello
    | Lease
    | Function
    | Task
    | Tasks
    | Call
    | Calls
    | Cancel
    | Consumed
    | Recall
    | Unlease
    | Done
    | Results
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
    | Handed
    | NodeMessage
    | ClusterMessage
    | MembershipMessage
    | ReportMessage
    | ActorMessage
    | CopyMessage
    | BundleMessage
)
