"""Messages between nodes and the head about nodes, jobs and processes, and messages that are passed
on.

On a single machine the head runs in the node's process. The same messages then pass through a queue
and are never encoded. Nodes are named by the first 6 bytes of the ids of their processes, the
*prefix*, and, for display, by their node id in hex.
"""

from __future__ import annotations

from typing import Any

import msgspec

from phalanx.model.principals import Principal
from phalanx.protocol.wire_errors import WireError
from phalanx.scheduler.devices.cards import PLAIN, Cards


class Via(msgspec.Struct, array_like=True, tag=70):
    """Messages that a node passes on, from or to a process of another node.

    `body` is the msgpack list of the messages, as a frame carries it.
    """

    process: bytes
    body: bytes


class ForwardedAsk(msgspec.Struct, array_like=True, tag=71):
    """Node to head: a process's request, unchanged. `origin` is the id of the process; "" for a
    visitor.

    The head answers with a ForwardedReply.
    """

    token: int
    origin: bytes
    kind: int
    body: msgspec.Raw
    is_again: bool = False
    """Whether the request was sent before, over a connection that ended without an answer. The head
    may then have carried it out already.
    """
    principal: Principal | None = None
    """The asker as the node has authenticated it; None if the node itself asks."""


class ForwardedReply(msgspec.Struct, array_like=True, tag=72):
    """Head to node: the reply to a forwarded request; the fields are as in Reply."""

    token: int
    result: msgspec.Raw
    error: WireError | None = None


class CloseDevices(msgspec.Struct, array_like=True, tag=123):
    """Head to node: exactly these GPUs are cordoned and get no new work.

    `excused`: the GPUs that a user has declared healthy; only their later errors count against
    them.
    """

    cordoned: list[int]
    excused: list[int] = []


class EndWork(msgspec.Struct, array_like=True, tag=124):
    """Head to node: end the workers of tasks and actors, because the node must be emptied now.

    The workers get SIGTERM; with `by_force` they are killed. The message may arrive twice. Members
    of jobs and gangs are ended by other messages.
    """

    reason: str
    by_force: bool = False


class ViewRow(msgspec.Struct, array_like=True):
    """The facts about one node that the other nodes know."""

    node_id: str
    prefix: bytes
    host: str
    port: int
    state: str
    total: dict[str, float]
    available: dict[str, float]
    labels: dict[str, str]
    devices: dict[str, list[int]] = {}
    queue_length: int = 0
    run_s: float = 0.0
    bandwidth: float = 0.0
    ports: str = ""
    """The ports that gangs may use on the node, if its configuration names them."""
    limits: dict[str, int] = {}
    """The largest number of devices that the node can have, by resource. A resource has an entry
    only if environment variables let the node use some of the machine's devices and not all of
    them.
    """
    cards: Cards = PLAIN
    """The facts about the node's GPUs, as in NodeReport."""
    last_lease: int = 0
    """The number of the last lease that `available` takes into account, as in NodeReport."""


class View(msgspec.Struct, array_like=True, tag=74):
    """Head to nodes: the rows of nodes that changed, or all rows. With all rows, the receiver
    forgets the nodes that are not in the message.
    """

    rows: list[ViewRow]
    is_whole: bool = False


class NodeDied(msgspec.Struct, array_like=True, tag=75):
    """Head to nodes, and nodes to their processes: this node is dead, and sends no more
    messages.
    """

    prefix: bytes
    node_id: str
    reason: str
    death: str = ""
    """The way in which the node ended (see `model.node_deaths`)."""


class ProcessEnded(msgspec.Struct, array_like=True, tag=82):
    """Node to head: a driver or worker of the node has ended."""

    process: bytes
    is_driver: bool


class JobEnded(msgspec.Struct, array_like=True, tag=83):
    """Head to nodes: end a job's workers and drop its driver's objects.

    `keep`: the detached actors whose workers stay. `files`: the files that also stay, because these
    actors need them to restart.
    """

    job: bytes
    keep: list[bytes]
    driver: bytes
    files: list[str]


class JobKnown(msgspec.Struct, array_like=True, tag=84):
    """The description of a job for its workers. A node gets it before the node's first work for the
    job.

    `driver`: the process that gets the workers' output.
    """

    job: bytes
    driver: bytes
    path: list[str]
    directory: str
    namespace: str
    hook: bytes
    log_to_driver: bool
    queue: str = ""
    priority: int = 0
    pid: int = 0
    entrypoint: str = ""
    """The driver's program and its arguments, for display."""
    authkey: bytes = b""
    umask: int = -1
    principal: Principal | None = None
    """The principal of the driver, as its node has authenticated it."""


class EnvironmentKnown(msgspec.Struct, array_like=True, tag=85):
    """The variables of a runtime environment, by the environment's key. A node gets them before the
    key is first used there. `job`: the driver's job that uses the environment.
    """

    key: bytes
    variables: dict[str, str]
    job: bytes = b""


class SetTotals(msgspec.Struct, array_like=True, tag=91):
    """Head to node: set the total amounts of these resources."""

    totals: dict[str, float]


class Happened(msgspec.Struct, array_like=True, tag=98):
    """Process to its node: cluster events that the process recorded."""

    rows: list[dict[str, Any]]


class QueueWeights(msgspec.Struct, array_like=True, tag=107):
    """Head to nodes: the queues that exist, and the weight of each for ordinary tasks."""

    weights: dict[str, float]


ClusterMessage = (
    Via
    | ForwardedAsk
    | ForwardedReply
    | CloseDevices
    | EndWork
    | View
    | NodeDied
    | ProcessEnded
    | JobEnded
    | JobKnown
    | EnvironmentKnown
    | SetTotals
    | Happened
    | QueueWeights
)
