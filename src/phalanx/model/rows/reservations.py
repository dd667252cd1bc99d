"""Reservations and counts of licences, as people see them."""

from __future__ import annotations

from phalanx.model.rows.row import Row


class ReservationInfo(Row, frozen=True):
    """A reservation. Times are in seconds since the epoch."""

    name: str
    state: str
    """active, or planned."""
    begin: float
    """Of the window that it is in, or of the next one."""
    end: float | None
    """None: it has none until it is deleted."""
    schedule: str
    """When it recurs; "" for one that does not."""
    time_zone: str
    is_maintenance: bool
    users: list[str]
    queues: list[str]
    """Whose jobs may run in it; neither: anybody's that name it."""
    nodes: dict[str, dict[str, float]]
    """What it keeps of each node, by id, under the names of leases; nothing named: all of it."""
    hosts: list[str]
    """The names of these machines; with ids where several nodes are on one."""
    running: list[str]
    """Jobs that run in it."""
    waiting: list[str]
    """Jobs that name it and wait."""
    lacks: str
    """What it was to keep and does not, as nodes are gone; "" for nothing."""


class LicenseInfo(Row, frozen=True):
    """A count that the whole cluster has."""

    name: str
    total: int
    held: int
    holders: dict[str, int]
    """The jobs that hold some, and how many."""
    waiting: int
    """So many are asked for by jobs that wait."""
