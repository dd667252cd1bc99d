"""Reports of nodes: their resources, devices and machines, and their parts of listings, events and
logs.
"""

from __future__ import annotations

from typing import Any

import msgspec

from phalanx.model.node_use import NodeUse
from phalanx.observe.checks import CheckState
from phalanx.observe.device_health import UnwellDevice
from phalanx.observe.devices import DeviceSample, DeviceShare
from phalanx.observe.log_lines import LogPiece
from phalanx.observe.state.query import StatePart, StateQuery
from phalanx.scheduler.devices.cards import PLAIN, Cards

REPORT_EVERY_S = 1.0
"""Seconds between two reports of a node without news. The head declares a node dead if its reports
stop.
"""


class NodeReport(msgspec.Struct, array_like=True, tag=73):
    """Node to head: the node's free amounts, waiting requests and run times of tasks. This report
    is also the heartbeat.

    Amounts are by resource. `devices`: what is free of each numbered device, in units of 1/10000.
    `queued`: (resources, wanted workers) for each class of waiting tasks. `run_s` is the mean run
    time in seconds, and `bandwidth` is in bytes a second; both numbers are exponential averages.
    `total`: set only when it has changed. `yields`: the amounts that ordinary tasks hold and that
    become free for other work when the running tasks have ended. `unwell`: the GPUs that are
    suspect or bad. `trouble`: the reason why the state of the GPUs is unknown now. `checks`: the
    health checks that do not pass.
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
    """A clause that names the resources that the node lacks for starting commands; "" if it can
    start commands.
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
    """The number by which `ReportHeard` refers to this report; 0 for a report to which it never
    refers.
    """
    is_asking: bool = False
    """Whether the head answers with `ReportHeard`."""
    last_lease: int = 0
    """The number of the node's last lease. In `available`, the resources of this lease and of all
    earlier leases are already subtracted.
    """


class ReportHeard(msgspec.Struct, array_like=True, tag=152):
    """Head to node: the number of the latest report that the head has got from the node.

    The head sends this message before an order that begins work, and when a report asks for it. If
    the message is lost or late, the node asks again.
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


class NodeNumbers(msgspec.Struct, array_like=True, tag=120):
    """Node to head: the node's metrics, which replace its earlier metrics. The metrics are the
    msgpack of a list of `observe.metrics.definitions.Numbers` without the label `node`.
    """

    numbers: bytes


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


class GatherEvents(msgspec.Struct, array_like=True, tag=99):
    """Head to nodes: report your cluster events. Nodes answer with EventsReported and the same
    number.
    """

    number: int


class EventsReported(msgspec.Struct, array_like=True, tag=100):
    """Node to head: the cluster events that the node remembers."""

    number: int
    rows: list[dict[str, Any]]


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


ReportMessage = (
    NodeReport
    | ReportHeard
    | DevicesSeen
    | MachineSeen
    | NodeNumbers
    | GatherState
    | StateReported
    | GatherEvents
    | EventsReported
    | ReadNodeLog
    | NodeLogRead
    | ReadNodeUse
    | NodeUseRead
)
