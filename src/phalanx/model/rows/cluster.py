"""Rows of what a cluster is made of."""

from __future__ import annotations

from typing import Any

import msgspec

from phalanx.model.rows.row import Row


class NodeInfo(Row, frozen=True):
    """A node, as it reported last. Amounts are by resource; memory is in bytes."""

    node_id: str
    """In hex."""
    state: str
    """ALIVE, DRAINING or DEAD."""
    reason: str
    """Why it drains, is dead, or is not connected now; empty when all is well."""
    host: str
    port: int
    """Where its gateway listens."""
    hostname: str
    """Of its machine, or what people call it, which is then `name`, too."""
    total: dict[str, float]
    available: dict[str, float]
    labels: dict[str, str]
    running: int
    """Leases of workers that it has given out, and members of jobs."""
    waiting: int
    """Workers that are waited for."""
    devices: dict[str, list[int]]
    """How much is left of each numbered device, by resource, in units of 1/10000 of one; nothing
    of one that is bad or cordoned."""
    holds: list[tuple[str, str, str, float, float]] = msgspec.field(default_factory=list)
    """(cordon, drain, maintenance, health or check; why; who asked for it; since when; when what
    still runs is ended) of each reason for which it drains; seconds since the epoch, 0: never."""
    unwell: list[tuple[int, str, str, str]] = msgspec.field(default_factory=list)
    """(number, suspect or bad, what has to be done, why) of each GPU that is not ok."""
    closed: list[int] = msgspec.field(default_factory=list)
    """The GPUs that get nothing new: those that are bad, and those that somebody has closed."""
    trouble: str = ""
    """Why nothing is known of its GPUs now."""
    checks: list[tuple[str, str, str]] = msgspec.field(default_factory=list)
    """(name, suspect, bad or pending, what it said) of each check that is not ok."""
    name: str = ""
    """What people call it, where they have said so."""


class DriverInfo(Row, frozen=True):
    """A program that uses the cluster."""

    job_id: str
    """The number of its job, in hex, with which the ids of all its work end."""
    number: int
    start_time: float
    """In seconds since the epoch."""
    end_time: float = 0.0
    """0 while it runs."""
    state: str = "RUNNING"
    """RUNNING or ENDED."""
    pid: int = 0
    node_id: str = ""
    """Of its node the id's beginning, which the ids of its processes have too."""
    driver_id: str = ""
    """The id of its process."""
    entrypoint: str = ""
    """The program and its arguments."""
    namespace: str = ""
    queue: str = ""
    priority: int = 0


class DefectInfo(Row, frozen=True):
    """Errors of the head's own that harmed one thing each, such as a job or a request."""

    count: int
    """Since the head started."""
    last: str
    """What the last one was about, its class and its text."""
    at: float
    """When that was, in seconds since the epoch."""


class StatusInfo(Row, frozen=True):
    """A whole cluster at a glance."""

    address: str
    """HOST:PORT of its head; empty for a cluster of one machine."""
    store: str
    """Where its tables are kept."""
    nodes: list[NodeInfo]
    actors: dict[str, int]
    """How many are in each state."""
    groups: list[dict[str, Any]]
    """Placement groups, in the form of `ray.util.placement_group_table()`."""
    jobs: list[DriverInfo]
    """The drivers that run."""
    gangs: dict[str, int]
    """Gangs, those of jobs among them: how many are running, waiting, and set aside because
    deciding about them failed."""
    troubles: list[str]
    """What is not well with the head, a sentence each; empty when all is."""
    defects: dict[str, DefectInfo]
    """By kind: gang, plugin, cycle, job, flow, cron, actor, request, message, connection or tick.
    None when all is well."""
    stranded: dict[str, dict[str, float]] = msgspec.field(default_factory=dict)
    """By node and resource: what is free there, while nothing that waits for such fits."""
    lost_nodes: list[str] = msgspec.field(default_factory=list)
    """The nodes that died within the last hour although nobody ended them, each with why."""


class HyperNodeInfo(Row, frozen=True):
    """A network domain."""

    name: str
    tier: int
    """The lower, the closer its nodes are to each other."""
    tier_name: str
    parent: str
    """The domain that it is part of; empty when there is none."""
    nodes: list[str]
    """The ids of the nodes that are in it now."""
