"""Rows of reservations and counts of licenses."""

from __future__ import annotations

from phalanx.model.rows.row import Row


class ReservationInfo(Row, frozen=True):
    """A reservation. Times are in seconds since the epoch."""

    name: str
    state: str
    """The reservation's state: active or planned."""
    begin: float
    """The beginning of the present window, or of the next one."""
    end: float | None
    """The end of that window; None: the reservation lasts until it is deleted."""
    schedule: str
    """The cron schedule of a reservation that recurs; "" for one that does not."""
    time_zone: str
    is_maintenance: bool
    users: list[str]
    queues: list[str]
    """Users and queues whose jobs may run in the reservation; both empty: any job that names it."""
    nodes: dict[str, dict[str, float]]
    """The reserved amounts of each node, by id, under the names of leases; empty: the whole
    node."""
    hosts: list[str]
    """The host names of these nodes. A node's id is added where several nodes share one machine."""
    running: list[str]
    """Jobs that run in the reservation."""
    waiting: list[str]
    """Waiting jobs that name the reservation."""
    lacks: str
    """The amounts that the reservation should keep but does not, because nodes are gone; "" for
    none.
    """


class LicenseInfo(Row, frozen=True):
    """A kind of license: its number in the whole cluster, and the jobs that hold or want some."""

    name: str
    total: int
    held: int
    holders: dict[str, int]
    """The jobs that hold some of these licenses, with the number that each holds."""
    waiting: int
    """The number of these licenses that waiting jobs request."""
