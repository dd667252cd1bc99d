"""Messages between a client, which has no node, and its driver on the cluster.

The client does the first part of a driver's work: it pickles functions and arguments, and chooses
the options and the numbers of tasks and objects. The driver then owns the work. Pickles pass
through the driver as bytes. The *name* of an object is the id of its owner and its number, as in
all messages. The client numbers its tasks and objects itself, from FIRST_NUMBER on, as if they were
made in the driver's process.

The messages travel in a `resumable` stream. `Greeting` and `Welcome` come before the stream, in
frames of their own, whenever a connection begins.
"""

from __future__ import annotations

from typing import Any

import msgspec

from phalanx.errors import ProtocolError
from phalanx.observe.task_journal import About
from phalanx.protocol.actor_creation import Creation
from phalanx.protocol.messages import Payload
from phalanx.protocol.node_messages import LogLine
from phalanx.protocol.requests.actors import ActorSpec
from phalanx.protocol.resumable import Packet
from phalanx.protocol.wire_errors import WireError

CLIENT_VERSION = 1
"""The version of these messages. A client and its driver must have the same version."""
FIRST_NUMBER = 1 << 30
"""The first number of a client's work. Smaller numbers belong to the work of the client's
driver.
"""
GREETING_BYTES = 1 << 12
"""The largest size in bytes of the frame with a greeting. Nothing else is read before it."""
PACKET_FRAME_BYTES = 4 << 20
"""The largest size in bytes of a frame with packets."""

Name = tuple[bytes, int]
"""The owner of an object, and the object's number."""


class Greeting(msgspec.Struct, array_like=True, tag=1):
    """The client's first message on each connection. `secret`: the secret of its session. `have`:
    the number of the last part of the driver's messages that the client has received (see
    `resumable`). `python`: the version of the client's Python. `process`: the driver's process to
    which the client was connected before; b"" on the first connection.
    """

    version: int
    secret: bytes
    have: int
    python: str
    process: bytes = b""


class Welcome(msgspec.Struct, array_like=True, tag=2):
    """The driver's answer to a Greeting. `refusal`: why the client gets no session; "" if it gets
    one.
    """

    have: int = 0
    refusal: str = ""
    process: bytes = b""
    """The id of the driver's process."""
    node_id: str = ""
    session_name: str = ""
    session_directory: str = ""
    namespace: str = ""


# ---- to the driver -----------------------------------------------------------------------------


class DefineFunction(msgspec.Struct, array_like=True, tag=10):
    """Define a remote function under a key."""

    key: bytes
    name: str
    pickle: bytes
    max_calls: int


class ClassFields(msgspec.Struct, array_like=True):
    """The fields of a task's ClassKey (`owner.tasks.records`)."""

    resources: tuple[tuple[str, float], ...]
    environment: bytes
    strategy: bytes
    queue: str
    priority: int
    single: bool
    once: bool
    each: bool
    retriable: bool


class DefineTemplate(msgspec.Struct, array_like=True, tag=11):
    """Define a remote function with one set of options under a number. `retry_exceptions`: the
    pickle of the exceptions after which calls are retried; empty for none.
    """

    number: int
    function: bytes
    scheduling: ClassFields
    name: str
    returns: int
    max_retries: int
    retry_exceptions: bytes
    timeout_s: float | None
    backpressure: int
    about: About


class SubmitTask(msgspec.Struct, array_like=True, tag=12):
    """Run a task. `inputs` are the names of the references among the arguments."""

    number: int
    template: int
    args: Payload
    inputs: list[Name] = []


class SubmitGang(msgspec.Struct, array_like=True, tag=13):
    """Run a gang of tasks, one for each number and template."""

    group: bytes
    numbers: list[int]
    templates: list[int]
    min_members: int
    args: Payload
    inputs: list[Name] = []


class SubmitCall(msgspec.Struct, array_like=True, tag=14):
    """Call a method of an actor. `keep` is the name of the reference that keeps the actor alive.
    `limit`: the largest number of pending calls, above which the call fails; 0 or less for no
    limit.
    """

    number: int
    actor: bytes
    actor_name: str
    method: str
    args: Payload
    inputs: list[Name]
    returns: int
    retries: int
    retry_exceptions: bytes
    group: str
    backpressure: int
    name: str
    is_listed: bool
    out_of_order: bool
    concurrency: int
    keep: Name | None = None
    limit: int = 0


class CreateActor(msgspec.Struct, array_like=True, tag=15):
    """Create an actor. With a token, the answer is a KnownActor. `hold`: the number of the object
    whose reference keeps the actor alive; 0 for a detached actor. The class is sent once; later
    creations of the same class have an empty pickle.
    """

    spec: ActorSpec
    creation: Creation
    inputs: list[Name]
    hold: int = 0
    token: int = 0
    get_if_exists: bool = False


class PutObject(msgspec.Struct, array_like=True, tag=16):
    """Store a value under this number."""

    number: int
    value: Payload


class Drop(msgspec.Struct, array_like=True, tag=17):
    """The client has no reference to these objects any more. Each object is given as (owner,
    number, count). The count says how often the client has got or made the object's name.
    """

    refs: list[tuple[bytes, int, int]]


class GetObjects(msgspec.Struct, array_like=True, tag=18):
    """Wait for objects. The answer is a list of payloads. If an object has failed, the list has
    only the payload of that object.
    """

    token: int
    refs: list[Name]
    timeout_s: float | None


class WaitObjects(msgspec.Struct, array_like=True, tag=19):
    """Wait until `count` of the objects are ready. The answer is a list of their positions."""

    token: int
    refs: list[Name]
    count: int
    timeout_s: float | None
    fetch: bool


class WatchObject(msgspec.Struct, array_like=True, tag=20):
    """Send `Arrived` as soon as the object is ready."""

    ref: Name


class AskNode(msgspec.Struct, array_like=True, tag=21):
    """Pass a request on to the driver's node. Without a token, there is no answer."""

    token: int
    kind: int
    body: msgspec.Raw


class CancelWork(msgspec.Struct, array_like=True, tag=22):
    """Cancel the task behind an object. The answer is None."""

    token: int
    ref: Name
    force: bool
    recursive: bool


class Withdraw(msgspec.Struct, array_like=True, tag=23):
    """Take a task back if no worker has the task. The answer says whether the task was taken
    back.
    """

    token: int
    ref: Name


class TakeItems(msgspec.Struct, array_like=True, tag=24):
    """The reader of a stream has taken the items up to this index."""

    number: int
    index: int


class LeaveStream(msgspec.Struct, array_like=True, tag=25):
    """Nobody reads a stream any further."""

    number: int


class KillNow(msgspec.Struct, array_like=True, tag=26):
    """End an actor. The answer is None."""

    token: int
    actor: bytes
    no_restart: bool


class Inquire(msgspec.Struct, array_like=True, tag=27):
    """Ask the driver about itself. `what`: timeline, events, or the reason why a task waits."""

    token: int
    what: str
    ref: Name | None = None


class Leave(msgspec.Struct, array_like=True, tag=28):
    """The client has finished: the driver answers this message, and then ends all work of the
    client.
    """

    token: int


class Pin(msgspec.Struct, array_like=True, tag=29):
    """Keep an object for ever, because the client's program has pickled a reference to it itself,
    so that nobody can know who has the reference.
    """

    ref: Name


ToDriver = (
    Pin
    | DefineFunction
    | DefineTemplate
    | SubmitTask
    | SubmitGang
    | SubmitCall
    | CreateActor
    | PutObject
    | Drop
    | GetObjects
    | WaitObjects
    | WatchObject
    | AskNode
    | CancelWork
    | Withdraw
    | TakeItems
    | LeaveStream
    | KillNow
    | Inquire
    | Leave
)

# ---- to the client -----------------------------------------------------------------------------


class Answer(msgspec.Struct, array_like=True, tag=50):
    """The answer to the message with this token. `result` counts only if there is no error."""

    token: int
    result: msgspec.Raw
    error: WireError | None = None


class Arrived(msgspec.Struct, array_like=True, tag=51):
    """An object that was watched is ready."""

    ref: Name
    value: Payload


class StreamGrew(msgspec.Struct, array_like=True, tag=52):
    """All items of a stream have arrived up to this index."""

    number: int
    arrived_to: int
    is_ended: bool


class Printed(msgspec.Struct, array_like=True, tag=53):
    """A line that a worker has printed."""

    line: LogLine


class Warned(msgspec.Struct, array_like=True, tag=54):
    """A warning of the driver's runtime."""

    text: str


ToClient = Answer | Arrived | StreamGrew | Printed | Warned

_packets = msgspec.msgpack.Decoder(list[Packet])
_greetings = msgspec.msgpack.Decoder(list[Greeting | Welcome])
_to_driver = msgspec.msgpack.Decoder(ToDriver)
_to_client = msgspec.msgpack.Decoder(ToClient)
encode = msgspec.msgpack.Encoder().encode
"""Returns the bytes of a message."""


def decode_packets(body: Any) -> list[Any]:
    """Return the packets in the body of a frame. Raises ProtocolError for any other bytes."""
    found: list[Any] = _decoded(_packets, body)
    return found


def decode_greeting(body: Any) -> list[Any]:
    """Return the greeting or the welcome in the body of a frame. Raises ProtocolError."""
    found: list[Any] = _decoded(_greetings, body)
    return found


def decode_for_driver(message: bytes) -> ToDriver:
    """Return a message of a client. Raises ProtocolError."""
    found: ToDriver = _decoded(_to_driver, message)
    return found


def decode_for_client(message: bytes) -> ToClient:
    """Return a message of a driver. Raises ProtocolError."""
    found: ToClient = _decoded(_to_client, message)
    return found


def _decoded(decoder: msgspec.msgpack.Decoder[Any], data: Any) -> Any:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"bytes that are no message of a client: {error}") from None
