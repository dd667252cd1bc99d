"""Messages between nodes, and between nodes and the head. Messages of other processes are in other
modules.

On a single machine the head runs in the node's process: the same messages then pass through a queue
and are never encoded. Nodes are named by the first 6 bytes of the ids of their processes, the
*prefix*, and, for display, by their node id in hex.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from phalanx.model.machines import MachineShare
from phalanx.model.node_use import NodeUse
from phalanx.model.principals import Principal
from phalanx.model.system_settings import SystemSettings
from phalanx.observe.checks import CheckState
from phalanx.observe.device_health import UnwellDevice
from phalanx.observe.devices import DeviceSample, DeviceShare
from phalanx.observe.log_lines import LogPiece
from phalanx.observe.state.query import StatePart, StateQuery
from phalanx.protocol.bundle_messages import BundleInventory, BundleMessage
from phalanx.protocol.wire_errors import WireError
from phalanx.scheduler.devices.cards import PLAIN, Cards
from phalanx.scheduler.placement.placement_policy import PlacementPolicy


class Via(msgspec.Struct, array_like=True, tag=70):
    """Messages that a node passes on, from or to a process of another node.

    `body` is the msgpack list of the messages, as a frame carries it.
    """

    process: bytes
    body: bytes


class ForwardedAsk(msgspec.Struct, array_like=True, tag=71):
    """Node to head: a process's request, unchanged. `origin` is the id of the process; "" for a
    visitor.

    The head answers with ForwardedReply.
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


REPORT_EVERY_S = 1.0
"""Seconds between two reports of a node without news; the head relies on these reports."""


class NodeReport(msgspec.Struct, array_like=True, tag=73):
    """Node to head: the node's free amounts, waiting requests and run times of tasks. This report
    is also the heartbeat.

    Amounts are by resource. `devices`: what is free of each numbered device, in units of 1/10000.
    `queued`: (resources, wanted workers) for each class of waiting tasks. `run_s` is the mean run
    time in seconds, and `bandwidth` is in bytes a second; both are exponential averages. `total`:
    set only when it has changed. `yields`: the amounts held by ordinary tasks whose workers are
    free for other owners after the running task. `unwell`: the GPUs that are suspect or bad.
    `trouble`: the reason why the state of the GPUs is unknown now. `checks`: the health checks that
    do not pass.
    """

    available: dict[str, float]
    devices: dict[str, list[int]] = {}
    queued: list[tuple[dict[str, float], int]] = []
    running: int = 0
    run_s: float = 0.0
    bandwidth: float = 0.0
    total: dict[str, float] | None = None
    yields: dict[str, float] = {}
    unwell: list[UnwellDevice] = []
    trouble: str = ""
    checks: list[CheckState] = []
    directories: str = ""
    """A clause that says what is wrong with the directories in which the node works; "" if nothing
    is.
    """
    shortage: str = ""
    """A clause that names the resources of which the node has none left, so that it can start no
    command now; "" if it can start commands.
    """
    command_groups: str = ""
    """The way in which the node finds all processes of a command (see `model.command_groups`)."""
    parts_killed: int = 0
    """The number of times that one of the node's helper processes was killed and started again."""
    last_killed: str = ""
    """A clause that describes the last time that a helper process was killed."""
    cards: Cards = PLAIN
    """The facts about the node's GPUs, except the free part of each."""
    number: int = 0
    """The number by which the head names the report in `ReportHeard`; 0: the head never names
    it.
    """
    is_asking: bool = False
    """Whether the head answers with `ReportHeard`."""


class ReportHeard(msgspec.Struct, array_like=True, tag=152):
    """Head to node: the latest report that the head has got from the node has this number.

    The head sends the message before an order that begins work, and as the answer to a report that
    asks. A message that is lost or late only lets the node ask again.
    """

    number: int


class DevicesSeen(msgspec.Struct, array_like=True, tag=122):
    """Node to head: the latest samples of the node's GPUs, which replace earlier samples. The
    message may be lost. `holders`: the names of the holders of each device.
    """

    samples: list[DeviceSample]
    holders: dict[int, list[str]] = {}
    shares: dict[int, list[DeviceShare]] = {}
    """The holders that share each shared device."""


class MachineSeen(msgspec.Struct, array_like=True, tag=145):
    """Node to head: the use of the node's machine, which replaces earlier reports. The message may
    be lost.

    `cpus`: the number of CPUs that were busy on average since the last report. `memory_bytes`: the
    memory in use.
    """

    cpus: float
    memory_bytes: float


class ReadNodeUse(msgspec.Struct, array_like=True, tag=156):
    """Head to node: report the node's usage over the last `span_s` seconds, and its processes. The
    node answers with NodeUseRead.
    """

    number: int
    span_s: float


class NodeUseRead(msgspec.Struct, array_like=True, tag=157):
    """Node to head: the usage of the node."""

    number: int
    use: NodeUse


class CloseDevices(msgspec.Struct, array_like=True, tag=123):
    """Head to node: exactly these GPUs are cordoned and get no new work.

    `excused`: the GPUs that a user has declared healthy; only their later errors count against
    them.
    """

    cordoned: list[int]
    excused: list[int] = []


class EndWork(msgspec.Struct, array_like=True, tag=124):
    """Head to node: end the workers of tasks and actors, because the node must be empty now.

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
    """The largest number of numbered devices that the node can have, by resource. Set if the node's
    environment shows it only some of the machine's devices.
    """
    cards: Cards = PLAIN
    """The facts about the node's GPUs, as in NodeReport."""


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


class PlaceActor(msgspec.Struct, array_like=True, tag=76):
    """Head to node: find a worker for this actor and make the actor there."""

    actor: bytes
    incarnation: int
    job: bytes
    creation: bytes
    name: str
    namespace: str
    place: dict[str, float]
    hold: dict[str, float]
    environment: bytes
    strategy: dict[str, Any]
    priority: int
    restarts: bool = False
    """Whether the actor may restart when its worker ends."""
    lived_before: bool = False
    """Whether the actor existed before, and restarts because its worker has ended."""


class WithdrawActor(msgspec.Struct, array_like=True, tag=77):
    """Head to node: the actor no longer needs a worker on this node."""

    actor: bytes


class EndActor(msgspec.Struct, array_like=True, tag=78):
    """Head to node: end the actor's worker, after its calls have ended or, with `force`, at
    once.
    """

    worker: bytes
    reason: str
    force: bool


class ActorPlaced(msgspec.Struct, array_like=True, tag=79):
    """Node to head: a worker was found, and makes the actor."""

    actor: bytes
    incarnation: int
    worker: bytes
    pid: int


class ActorLost(msgspec.Struct, array_like=True, tag=80):
    """Node to head: the actor's worker has ended."""

    actor: bytes
    worker: bytes
    reason: str
    preempted: bool = False
    code: str = ""
    """The code of the error with which the actor's calls fail; "" for a plain ActorDiedError."""
    is_parent_killed: bool = False
    """Whether the worker ended because its parent process was killed, most likely by the worker
    itself.
    """


class ActorRefused(msgspec.Struct, array_like=True, tag=81):
    """Node to head: the node has no worker for the actor. With the code of an error, the node can
    never run the actor; without a code, it may have a worker later.
    """

    actor: bytes
    reason: str
    code: str


class ProcessEnded(msgspec.Struct, array_like=True, tag=82):
    """Node to head: a driver or worker of the node has ended."""

    process: bytes
    is_driver: bool


class JobEnded(msgspec.Struct, array_like=True, tag=83):
    """Head to nodes: end a job's workers and drop its driver's objects.

    `keep`: the detached actors whose workers stay. `files`: the files that stay, too, because these
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
    key is first used there. `job`: the driver's job that uses it.
    """

    key: bytes
    variables: dict[str, str]
    job: bytes = b""


class Reported(msgspec.Struct, array_like=True, tag=95):
    """Node to head: messages that the head confirms with Acked; `body` is the body of their
    frame.
    """

    token: int
    body: bytes


class Acked(msgspec.Struct, array_like=True, tag=96):
    """Head to node: the changes of the node's Reported message are in the store."""

    token: int


class Probe(msgspec.Struct, array_like=True, tag=148):
    """Node to head: answer with Probed at once. Nodes of a cluster with a standby ask when the head
    has been silent.
    """


class Probed(msgspec.Struct, array_like=True, tag=149):
    """Head to node: the answer to Probe."""


class SetTotals(msgspec.Struct, array_like=True, tag=91):
    """Head to node: set the total amounts of these resources."""

    totals: dict[str, float]


class CopyMade(msgspec.Struct, array_like=True, tag=92):
    """Node to node: the sender has a copy of this object, and wants a message when the object is
    deleted.
    """

    name: str


class WantSource(msgspec.Struct, array_like=True, tag=134):
    """Node to node: the sender asks from which node it can copy this large object. The receiver is
    the node that wrote the object.
    """

    name: str
    size: int


class SourceFor(msgspec.Struct, array_like=True, tag=135):
    """Node to node: copy this object from the node with the prefix `source`; wait if the prefix is
    empty.
    """

    name: str
    source: bytes


class SourceFree(msgspec.Struct, array_like=True, tag=136):
    """Node to node: the sender has stopped copying this object, and has no copy."""

    name: str


class Prefetch(msgspec.Struct, array_like=True, tag=93):
    """Process to its node: these objects, as (name, bytes), will soon be read on this node. Some of
    them are on other nodes.
    """

    objects: list[tuple[str, int]]


class Happened(msgspec.Struct, array_like=True, tag=98):
    """Process to its node: cluster events that the process recorded."""

    rows: list[dict[str, Any]]


class GatherEvents(msgspec.Struct, array_like=True, tag=99):
    """Head to nodes: report your cluster events. Nodes answer with EventsReported and the same
    number.
    """

    number: int


class EventsReported(msgspec.Struct, array_like=True, tag=100):
    """Node to head: the cluster events that the node remembers."""

    number: int
    rows: list[dict[str, Any]]


class QueueWeights(msgspec.Struct, array_like=True, tag=107):
    """Head to nodes: the queues that exist, and the weight of each for ordinary tasks."""

    weights: dict[str, float]


class ActorHere(NamedTuple):
    """An actor on a node: its worker (empty while the actor waits for one) and its incarnation."""

    worker: bytes
    incarnation: int


class Join(msgspec.Struct, array_like=True, tag=109):
    """Node to head, the node's first message: the node joins the cluster, for the first time or
    again. The head answers with Joined or Expelled.

    `epoch`: the epoch of the node's last stay in the cluster; 0 if it never belonged to the
    cluster. `actors`: the actors on the node. `cluster`: the name of the node's cluster; "" if the
    node has not joined before, or if its head has no lasting store. `given_up`: the prefixes of
    nodes that a head has declared dead, which a restarted head may not know. `hostname`: the name
    of the node's machine; if the node was given a name, that name, which is then also in `name`.
    """

    row: ViewRow
    hostname: str
    epoch: int
    actors: dict[bytes, ActorHere]
    bundles: BundleInventory
    cluster: str = ""
    given_up: list[bytes] = []
    name: str = ""
    machine: MachineShare | None = None
    """The machine whose amounts the node shares with other nodes; None if the node does not
    share.
    """
    is_system: bool = False
    """Whether the node runs jobs as their submitters."""
    formers: list[str] = []
    """The ids of earlier processes of this node, whose members the present process has taken
    over.
    """
    keeps_commands: bool = False
    """Whether members continue when this node's process ends, so that its next process can take
    them over.
    """


class BeginLease(NamedTuple):
    """How long a node may begin work after it has sent a report that reached the head."""

    sure_s: float
    """Seconds in which the head does not give the node up, even if the node's connection ends."""
    answered_s: float
    """Seconds in which the head does not give the node up while its connection is whole."""


class Joined(msgspec.Struct, array_like=True, tag=110):
    """Head to node: the node belongs to the cluster, with this policy and these settings.

    A View with all rows follows.
    """

    epoch: int
    placement: PlacementPolicy
    cluster: str = ""
    settings: SystemSettings = SystemSettings()
    standbys: tuple[str, ...] = ()
    """HOST:PORT of each other process that may be the head of this cluster."""
    lease: BeginLease | None = None
    """None: the node may begin work at any time."""


class Expelled(msgspec.Struct, array_like=True, tag=111):
    """Head to node: the node does not belong to the cluster.

    `is_stale`: the node was declared dead, and may join again as a new node. `is_foreign`: the node
    belongs to another cluster, whose head may return to this address.
    """

    reason: str
    is_stale: bool
    is_foreign: bool = False


class Leave(msgspec.Struct, array_like=True, tag=112):
    """Node to head: the node ends on purpose."""

    reason: str
    is_failure: bool = False
    """Whether the node has to end because one of its own processes was killed."""


class GatherState(msgspec.Struct, array_like=True, tag=113):
    """Head to node: report the rows of the node and its processes for a listing.

    The node answers with StateReported within `within_s` seconds. `ip`: the node's address in the
    cluster.
    """

    number: int
    query: StateQuery
    within_s: float
    ip: str = ""


class StateReported(msgspec.Struct, array_like=True, tag=114):
    """Node to head: the node's part of a listing. `silent`: the processes that did not answer in
    time.
    """

    number: int
    part: StatePart
    silent: list[str] = []
    pids: dict[str, int] = {}
    """In a listing of tasks: the pids of the living workers on the node, by the hex of their
    ids.
    """


class ReadNodeLog(msgspec.Struct, array_like=True, tag=118):
    """Head to node: read the log of the node or of a worker, from `offset` in `file` on (see
    LogPiece).

    The node answers with NodeLogRead.
    """

    number: int
    worker: str
    """The worker's id as in listings; "" for the node's own log."""
    file: int
    offset: int
    limit: int


class NodeLogRead(msgspec.Struct, array_like=True, tag=119):
    """Node to head: a part of a log."""

    number: int
    piece: LogPiece


class NodeNumbers(msgspec.Struct, array_like=True, tag=120):
    """Node to head: the node's metrics, which replace its earlier ones. They are the msgpack of a
    list of `observe.metrics.definitions.Numbers` without the label `node`.
    """

    numbers: bytes


ClusterMessage = (
    Via
    | ForwardedAsk
    | ForwardedReply
    | Join
    | Joined
    | Expelled
    | Leave
    | NodeReport
    | ReportHeard
    | DevicesSeen
    | MachineSeen
    | ReadNodeUse
    | NodeUseRead
    | CloseDevices
    | EndWork
    | View
    | NodeDied
    | PlaceActor
    | WithdrawActor
    | EndActor
    | ActorPlaced
    | ActorLost
    | ActorRefused
    | ProcessEnded
    | JobEnded
    | JobKnown
    | EnvironmentKnown
    | SetTotals
    | CopyMade
    | WantSource
    | SourceFor
    | SourceFree
    | Prefetch
    | Reported
    | Acked
    | Probe
    | Probed
    | Happened
    | GatherEvents
    | EventsReported
    | QueueWeights
    | GatherState
    | StateReported
    | ReadNodeLog
    | NodeLogRead
    | NodeNumbers
    | BundleMessage
)
