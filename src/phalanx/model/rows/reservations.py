"""Rows of reservations and of licenses."""

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
    """The end of that window; None if the reservation lasts until it is deleted."""
    schedule: str
    """The cron schedule of a reservation that recurs; "" for any other reservation."""
    time_zone: str
    is_maintenance: bool
    users: list[str]
    queues: list[str]
    """The users and queues whose jobs may run in the reservation. If there are none, any job that
    names the reservation may run in it.
    """
    nodes: dict[str, dict[str, float]]
    """The reserved amounts of each node by the node's id, with resources named as in leases. A node
    that is reserved as a whole has no amounts here.
    """
    hosts: list[str]
    """The host name of each of these nodes. If several nodes are on one machine, the node's id is
    added.
    """
    running: list[str]
    """Jobs that run in the reservation."""
    waiting: list[str]
    """Waiting jobs that name the reservation."""
    lacks: str
    """The amounts that the reservation lacks, because nodes are missing; "" if all amounts are
    kept.
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
