"""Rows of a cluster's nodes, drivers, errors and network domains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from phalanx.model.lifecycle import DEAD
from phalanx.model.rows.row import Row


def listed_name(host: str, hostname: str) -> str:
    """Return a node's name in lists of hosts: its address, by which programs reach it. A node whose
    address would be the same on every machine, such as 127.0.0.1, has the name of its host.
    """
    is_own = host.startswith("127.") or host in ("::1", "localhost")
    return (hostname if is_own else "") or host


class NodeInfo(Row, frozen=True):
    """A node, as it last reported. Amounts are by resource; memory is in bytes."""

    node_id: str
    """The node's id in hex."""
    state: str
    """The node's state: ALIVE, DRAINING or DEAD."""
    reason: str
    """Why the node drains, is dead, or is not connected now; "" for a node without problems."""
    host: str
    port: int
    """The port on which the node's gateway listens."""
    hostname: str
    """The name of the node's machine or, if a name was given to the node, that name, which is then
    also `name`.
    """
    total: dict[str, float]
    available: dict[str, float]
    labels: dict[str, str]
    running: int
    """The number of granted leases and of members of jobs on the node."""
    waiting: int
    """The number of workers that processes have requested from the node, and that the node has not
    provided yet.
    """
    devices: dict[str, list[int]]
    """The free part of each numbered device in units of 1/10000, by resource; 0 for a device that
    is bad or cordoned.
    """
    holds: list[tuple[str, str, str, float, float]] = msgspec.field(default_factory=list)
    """The holds for which the node gets no new work.

    Each hold is a tuple: its kind (such as cordon, drain, maintenance, health or check), its
    reason, its user, its beginning, and the time at which the remaining work is ended (0 for
    never). Times are in seconds since the epoch.
    """
    unwell: list[tuple[int, str, str, str]] = msgspec.field(default_factory=list)
    """(number, state: suspect or bad, needed action, reason) of each GPU that is not ok."""
    closed: list[int] = msgspec.field(default_factory=list)
    """The GPUs that get no new work, because they are bad or users have closed them."""
    trouble: str = ""
    """The reason why the state of the node's GPUs is unknown now; "" if it is known."""
    checks: list[tuple[str, str, str]] = msgspec.field(default_factory=list)
    """(name, state: suspect, bad or pending, output) of each health check that does not pass."""
    name: str = ""
    """The name given to the node, if any."""
    command_groups: str = ""
    """The way in which the node keeps the processes of a job's command together (delegated, scope
    or none), and the limits that this way cannot enforce.
    """
    began: float = 0.0
    """When the node first joined, in seconds since the epoch."""
    ended: float = 0.0
    """When the node was declared dead, in seconds since the epoch; 0 for a living node."""


def current_nodes(nodes: Iterable[NodeInfo]) -> list[NodeInfo]:
    """Return the nodes that a listing shows: the living nodes and, for each name that no living
    node has got since, the dead node that ended last.

    Each start of a node makes a new node, so a machine whose node was started several times has
    dead nodes of the same name.
    """
    rows = list(nodes)
    living: dict[tuple[str, str], float] = {}
    for row in rows:
        if row.state != DEAD:
            name = _shared_name(row)
            living[name] = max(row.began, living.get(name, 0.0))
    last: dict[tuple[str, str], NodeInfo] = {}
    for row in rows:
        name = _shared_name(row)
        if row.state == DEAD and not (name in living and living[name] >= row.began):
            known = last.get(name)
            last[name] = row if known is None or row.ended >= known.ended else known
    shown = {row.node_id for row in last.values()}
    return [row for row in rows if row.state != DEAD or row.node_id in shown]


def _shared_name(row: NodeInfo) -> tuple[str, str]:
    """Return the name that the next node of this one's machine has, too. Machines with the same
    name have different addresses.
    """
    return (row.name, "") if row.name else (row.hostname or row.node_id, row.host)


def given_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that users gave to a node.

    The result excludes the labels that every node has: its id, and the facts about its machine
    under Kubernetes' names.
    """
    return {
        name: value
        for name, value in labels.items()
        if name != "ray.io/node-id" and not name.startswith("kubernetes.io/")
    }


class DriverInfo(Row, frozen=True):
    """A program that uses the cluster."""

    job_id: str
    """The number of the driver's job, in hex. The ids of all work of the driver end with this
    number.
    """
    number: int
    start_time: float
    """When the driver started, in seconds since the epoch."""
    end_time: float = 0.0
    """When the driver ended, in seconds since the epoch; 0 while it runs."""
    state: str = "RUNNING"
    """The driver's state: RUNNING or ENDED."""
    pid: int = 0
    node_id: str = ""
    """The beginning of the id of the driver's node. The ids of the node's processes begin in the
    same way.
    """
    driver_id: str = ""
    """The id of the driver's process."""
    entrypoint: str = ""
    """The driver's program and its arguments."""
    namespace: str = ""
    queue: str = ""
    priority: int = 0


class DefectInfo(Row, frozen=True):
    """Internal errors of the head, each of which harmed one thing, such as a job or a request."""

    count: int
    """The number of these errors since the head started."""
    last: str
    """The subject of the last error, with the error's class and text."""
    at: float
    """The time of the last error, in seconds since the epoch."""


MINE, SHARED, SYSTEM = "mine", "shared", "system"
"""The modes of a cluster. A cluster that is MINE is used only by its own account. Several accounts
use clusters of the other modes. In SHARED, all jobs run as the nodes' account. In SYSTEM, each job
runs as its submitter.
"""


class StatusInfo(Row, frozen=True):
    """An overview of a whole cluster."""

    address: str
    """The head's address as HOST:PORT; "" for a cluster of one machine."""
    store: str
    """The store in which the head keeps its tables."""
    nodes: list[NodeInfo]
    actors: dict[str, int]
    """The number of actors in each state."""
    groups: list[dict[str, Any]]
    """The placement groups, in the form of `ray.util.placement_group_table()`."""
    jobs: list[DriverInfo]
    """The running drivers."""
    gangs: dict[str, int]
    """The numbers of running, of waiting and of quarantined gangs. The scheduler failed on
    quarantined gangs with an internal error. Gangs of jobs are included.
    """
    troubles: list[str]
    """The problems of the head, each as a sentence; empty for a head without problems."""
    defects: dict[str, DefectInfo]
    """The internal errors of the head by kind: gang, plugin, cycle, job, flow, cron, actor,
    request, message, connection or tick.

    It is empty if there were no errors.
    """
    stranded: dict[str, dict[str, float]] = msgspec.field(default_factory=dict)
    """By node and resource: the amounts that waiting work requests, and that are free because none
    of this work fits on the node.
    """
    lost_nodes: list[str] = msgspec.field(default_factory=list)
    """The nodes that died unexpectedly within the last hour, each with its reason."""
    standbys: list[str] = msgspec.field(default_factory=list)
    """HOST:PORT of each standby that the head was given."""
    booting: dict[str, list[str]] = msgspec.field(default_factory=dict)
    """The names of nodes that `phalanx provision` has requested and that have not joined yet, by
    pool.
    """
    mode: str = MINE
    """The mode of the cluster: MINE, SHARED or SYSTEM."""
    job_states: dict[str, int] = msgspec.field(default_factory=dict)
    """The number of jobs that have not ended, by state. An array is one job."""


class HyperNodeInfo(Row, frozen=True):
    """A network domain."""

    name: str
    tier: int
    """The level of the domain; the lower the level, the closer its nodes are to each other."""
    tier_name: str
    parent: str
    """The domain that contains this domain; "" for a domain at the top."""
    nodes: list[str]
    """The ids of the nodes that are in the domain now."""
