"""What nodes say to each other and to the head, beside what processes say.

On a single machine the head lives in the node's process: the same messages then pass
through a queue and are never encoded. Nodes are named by the first 6 bytes of the ids of their
processes, the *prefix*, and by their node id in hex where people see them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from phalanx.model.system_settings import SystemSettings
from phalanx.observe.checks import CheckState
from phalanx.observe.device_health import UnwellDevice
from phalanx.observe.devices import DeviceSample
from phalanx.observe.log_lines import LogPiece
from phalanx.observe.state.query import StatePart, StateQuery
from phalanx.protocol.bundle_messages import BundleInventory, BundleMessage
from phalanx.protocol.wire_errors import WireError
from phalanx.scheduler.placement.placement_policy import PlacementPolicy


class Via(msgspec.Struct, array_like=True, tag=70):
    """A message from, or for, a process of another node, which its node passes on.

    `body` is the msgpack list of messages that a frame carries.
    """

    process: bytes
    body: bytes


class ForwardedAsk(msgspec.Struct, array_like=True, tag=71):
    """Node to head: a request of process `origin` (empty: of a visitor), as it came; answered
    by ForwardedReply."""

    token: int
    origin: bytes
    kind: int
    body: msgspec.Raw
    is_again: bool = False
    """Whether it was sent before, over a connection that ended without an answer: the head may have
    carried it out."""
    user: str = ""
    """See Ask."""


class ForwardedReply(msgspec.Struct, array_like=True, tag=72):
    """Control to node: what Reply is to a process."""

    token: int
    result: msgspec.Raw
    error: WireError | None = None


REPORT_EVERY_S = 1.0
"""How often a node reports that has no news. The head counts on it."""


class NodeReport(msgspec.Struct, array_like=True, tag=73):
    """Node to head, its heartbeat: what is free, what waits, how long tasks run.

    Amounts by resource, `devices` the units of 1/10000 left on each numbered device; `queued`:
    (resources, workers wanted) for each class that waits. `run_s` is the mean run time in seconds
    and `bandwidth` bytes a second, exponential averages both. `total` only when it changed.
    `yields`: what ordinary tasks hold, whose workers give way to others after the task that runs.
    `unwell`: the GPUs that are suspect or bad. `trouble`: why nothing is known of them now.
    `checks`: those that are not ok.
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
    """What is wrong with the directories that the node works in, in one clause."""


class DevicesSeen(msgspec.Struct, array_like=True, tag=122):
    """Node to head: its GPUs as they were read last, which the next one replaces. It may be
    lost. `holders`: who was given each device, in words."""

    samples: list[DeviceSample]
    holders: dict[int, list[str]] = {}


class CloseDevices(msgspec.Struct, array_like=True, tag=123):
    """Control to node: these GPUs, and no others, are cordoned: nothing new is to get them. Of
    `excused` somebody says that they are well: only what comes new counts against them."""

    cordoned: list[int]
    excused: list[int] = []


class EndWork(msgspec.Struct, array_like=True, tag=124):
    """Control to node: its time to be empty has come: workers of tasks and actors are to end, which
    get SIGTERM, or are killed `by_force`. It may come twice: what has ended stays so. Members of
    jobs and gangs are ended by those who keep their places."""

    reason: str
    by_force: bool = False


class ViewRow(msgspec.Struct, array_like=True):
    """One node as the others know it."""

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
    """Those that gangs may use there, where its configuration says so."""
    limits: dict[str, int] = {}
    """So many numbered devices it can have at most, where its environment shows it some alone."""


class View(msgspec.Struct, array_like=True, tag=74):
    """Control to nodes: the rows that changed; or all there are, and other nodes are forgotten."""

    rows: list[ViewRow]
    is_whole: bool = False


class NodeDied(msgspec.Struct, array_like=True, tag=75):
    """Control to nodes, and they to their processes: nothing more comes from that node."""

    prefix: bytes
    node_id: str
    reason: str
    death: str = ""
    """How it ended (see `model.node_deaths`)."""


class PlaceActor(msgspec.Struct, array_like=True, tag=76):
    """Control to node: find a worker for this actor and have it made there."""

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
    """Whether it is made again when its worker ends."""
    lived_before: bool = False
    """Whether it is made again now, as its former worker has ended."""


class WithdrawActor(msgspec.Struct, array_like=True, tag=77):
    """Control to node: the actor needs no worker there."""

    actor: bytes


class EndActor(msgspec.Struct, array_like=True, tag=78):
    """Control to node: end the actor's worker, after its calls unless `force`."""

    worker: bytes
    reason: str
    force: bool


class ActorPlaced(msgspec.Struct, array_like=True, tag=79):
    """Node to head: a worker was found and makes the actor."""

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
    """Of the error that its calls fail with, where that is no ActorDiedError alone."""


class ActorRefused(msgspec.Struct, array_like=True, tag=81):
    """Node to head: no worker for it: for ever, when there is the code of an error, else for
    now."""

    actor: bytes
    reason: str
    code: str


class ProcessEnded(msgspec.Struct, array_like=True, tag=82):
    """Node to head: a driver or worker of the node is gone."""

    process: bytes
    is_driver: bool


class JobEnded(msgspec.Struct, array_like=True, tag=83):
    """Control to nodes: end the job's workers but those of the detached actors `keep`, and its
    driver's objects but the files from which those actors are made again."""

    job: bytes
    keep: list[bytes]
    driver: bytes
    files: list[str]


class JobKnown(msgspec.Struct, array_like=True, tag=84):
    """What workers of a job need, sent to a node before its first work for it.

    `driver` is the process that its output goes to.
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
    """The driver's program and its arguments, for people."""
    authkey: bytes = b""
    umask: int = -1


class EnvironmentKnown(msgspec.Struct, array_like=True, tag=85):
    """What an environment's key stands for, sent to a node before its first use there."""

    key: bytes
    variables: dict[str, str]


class Reported(msgspec.Struct, array_like=True, tag=95):
    """Node to head: `body`, a frame's body, which is confirmed with Acked."""

    token: int
    body: bytes


class Acked(msgspec.Struct, array_like=True, tag=96):
    """Control to node: what it reported is written down."""

    token: int


class SetTotals(msgspec.Struct, array_like=True, tag=91):
    """Control to node: from now on it has so much of these resources."""

    totals: dict[str, float]


class CopyMade(msgspec.Struct, array_like=True, tag=92):
    """Node to node: the sender has a copy of this object, and is to be notified when it goes."""

    name: str


class WantSource(msgspec.Struct, array_like=True, tag=134):
    """Node to node: the sender wants a copy of this large object, which the receiver has written,
    and to be told from which node to take it."""

    name: str
    size: int


class SourceFor(msgspec.Struct, array_like=True, tag=135):
    """Node to node: take this object from the node whose prefix is `source`; empty: wait."""

    name: str
    source: bytes


class SourceFree(msgspec.Struct, array_like=True, tag=136):
    """Node to node: the sender takes this object from nobody any more, and does not have it."""

    name: str


class Prefetch(msgspec.Struct, array_like=True, tag=93):
    """Process to its node: these objects (name, bytes), some of other nodes, will be read here."""

    objects: list[tuple[str, int]]


class Happened(msgspec.Struct, array_like=True, tag=98):
    """Process to its node: cluster events that it recorded."""

    rows: list[dict[str, Any]]


class GatherEvents(msgspec.Struct, array_like=True, tag=99):
    """Control to nodes: what has happened? Answered by EventsReported under this number."""

    number: int


class EventsReported(msgspec.Struct, array_like=True, tag=100):
    """Node to head: the cluster events that the node remembers."""

    number: int
    rows: list[dict[str, Any]]


class QueueWeights(msgspec.Struct, array_like=True, tag=107):
    """Control to nodes: the queues that there are, and what ordinary tasks of each weigh."""

    weights: dict[str, float]


class ActorHere(NamedTuple):
    """An actor that a node has: its worker, empty while it waits for one, and for which of its
    lives that is."""

    worker: bytes
    incarnation: int


class Join(msgspec.Struct, array_like=True, tag=109):
    """Node to head, its first message: it is there, for the first time or again. Answered by
    Joined or Expelled.

    `epoch`: of its last stay, 0 for none. `actors`: those that are there. `cluster`: the name of
    the one that it belongs to; empty where it has not joined, or where its head keeps nothing.
    `given_up`: the prefixes of nodes that a head has told it are dead: a head that restarted may
    not have kept that. `hostname`: of its machine, or what people call the node, which is then
    `name`, too.
    """

    row: ViewRow
    hostname: str
    epoch: int
    actors: dict[bytes, ActorHere]
    bundles: BundleInventory
    cluster: str = ""
    given_up: list[bytes] = []
    name: str = ""


class Joined(msgspec.Struct, array_like=True, tag=110):
    """Control to node: it is of the cluster, which places work by this policy and has
    these settings; the whole View follows."""

    epoch: int
    placement: PlacementPolicy
    cluster: str = ""
    settings: SystemSettings = SystemSettings()


class Expelled(msgspec.Struct, array_like=True, tag=111):
    """Control to node: it is none of the cluster's nodes. `is_stale`: it was given up, and may
    come back as another one. `is_foreign`: it belongs to another cluster, whose head may come back
    at this address."""

    reason: str
    is_stale: bool
    is_foreign: bool = False


class Leave(msgspec.Struct, array_like=True, tag=112):
    """Node to head: it ends by its own will."""

    reason: str
    is_failure: bool = False
    """Whether it has to, as a process of its own was killed."""


class GatherState(msgspec.Struct, array_like=True, tag=113):
    """Control to node: what it and its processes have for a listing; answered by StateReported
    `within_s` seconds. `ip`: where the cluster knows the node."""

    number: int
    query: StateQuery
    within_s: float
    ip: str = ""


class StateReported(msgspec.Struct, array_like=True, tag=114):
    """Node to head. `silent`: its processes that did not answer in time, in words."""

    number: int
    part: StatePart
    silent: list[str] = []
    pids: dict[str, int] = {}
    """Of a listing of tasks: the living workers here, by the hex of their ids."""


class ReadNodeLog(msgspec.Struct, array_like=True, tag=118):
    """Control to node: what stands in its log, or in a worker's, behind `offset` in `file` (see
    LogPiece); answered by NodeLogRead."""

    number: int
    worker: str
    """The worker's id as listings have it; empty: the node's own log."""
    file: int
    offset: int
    limit: int


class NodeLogRead(msgspec.Struct, array_like=True, tag=119):
    """Node to head: a part of a log."""

    number: int
    piece: LogPiece


class NodeNumbers(msgspec.Struct, array_like=True, tag=120):
    """Node to head: what it counts (a list of `observe.metrics.definitions.Numbers`, as
    msgpack, whose labels lack `node`). The next one replaces it."""

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
    | DevicesSeen
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
