"""A reservation as it is requested: the nodes, the time, and its users."""

from __future__ import annotations

import msgspec

from phalanx.model.jobs.timing import Moment

MAX_RESERVATIONS = 1_000
"""The most reservations at a time."""
MAX_NAMED = 1_000
"""The most users that one reservation names; the same for queues, nodes and labels."""
MAX_COUNT = 1_000_000
"""The most licenses of a kind, and nodes of a reservation."""


class Reservation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A request for a reservation.

    It keeps the nodes `nodes`, or all nodes that have `labels`, or `node_count` of these nodes, or
    a total amount of one resource (`amounts`) with an equal part of all other resources of the same
    nodes.

    It begins once, at `start`, or at each time of `schedule` (a cron schedule, in `time_zone`). It
    lasts for `length_s`, or until `end`, or until it is deleted.
    """

    name: str
    start: Moment | None = None
    end: Moment | None = None
    length_s: float | None = None
    latest: Moment | None = None
    """The latest beginning: the reservation begins as soon as its nodes are free, between `start`
    and this moment.
    """
    schedule: str = ""
    time_zone: str = ""
    users: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    """Users and queues whose jobs may run inside the reservation; both empty: any job that names
    it.
    """
    nodes: tuple[str, ...] = ()
    """Nodes by id, the beginning of an id, host or address."""
    labels: tuple[tuple[str, str], ...] = ()
    node_count: int = 0
    amounts: tuple[tuple[str, float], ...] = ()
    maintenance: bool = False
    """Whether the reservation is for maintenance: its nodes drain while it lasts, and take work
    again afterwards.
    """
    ignores_jobs: bool = False
    """Whether the reservation is accepted although jobs will still run when it begins; these jobs
    run on.
    """
