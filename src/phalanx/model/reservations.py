"""The request for a reservation: its nodes, its time and its users."""

from __future__ import annotations

import msgspec

from phalanx.model.jobs.timing import Moment

MAX_RESERVATIONS = 1_000
"""The largest number of reservations that a cluster has at a time."""
MAX_NAMED = 1_000
"""The largest number of users that one reservation names. The same bound applies to its queues,
nodes and labels.
"""
MAX_COUNT = 1_000_000
"""The largest number of nodes of a reservation, and of licenses of one kind."""


class Reservation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A request for a reservation.

    It keeps the nodes `nodes`, or all nodes that have `labels`, or `node_count` nodes with these
    labels. If `amounts` is given, it keeps that total amount of one resource, and the same part of
    all other resources of its nodes.

    The reservation begins once, at `start`, or at each time of `schedule` (a cron schedule, in
    `time_zone`). It lasts for `length_s`, or until `end`, or until it is deleted.
    """

    name: str
    start: Moment | None = None
    end: Moment | None = None
    length_s: float | None = None
    latest: Moment | None = None
    """The latest time at which the reservation begins. Between `start` and this time, it begins as
    soon as its nodes are free.
    """
    schedule: str = ""
    time_zone: str = ""
    users: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    """The users and queues whose jobs may run inside the reservation. If there are none, any job
    that names the reservation may run in it.
    """
    nodes: tuple[str, ...] = ()
    """The nodes, each by its id, the beginning of its id, its host or its address."""
    labels: tuple[tuple[str, str], ...] = ()
    node_count: int = 0
    amounts: tuple[tuple[str, float], ...] = ()
    maintenance: bool = False
    """Whether the reservation is for maintenance: its nodes drain while it lasts, and take work
    again afterwards.
    """
    ignores_jobs: bool = False
    """Whether the reservation is accepted although jobs will still run on its nodes when it begins.
    These jobs continue.
    """
