"""Rows of reservations and counts of licenses."""

from __future__ import annotations

from phalanx.model.rows.row import Row


class ReservationInfo(Row, frozen=True):
    """A reservation. Times are in seconds since the epoch."""

    name: str
    state: str
    """active, or planned."""
    begin: float
    """The begin of its present window, or of the next one."""
    end: float | None
    """The end of that window; None: until it is deleted."""
    schedule: str
    """When it recurs; "" for one that does not."""
    time_zone: str
    is_maintenance: bool
    users: list[str]
    queues: list[str]
    """Users and queues whose jobs may run in it; both empty: any job that names it."""
    nodes: dict[str, dict[str, float]]
    """The reserved amounts of each node, by id, under the names of leases; empty: the whole
    node."""
    hosts: list[str]
    """The names of these machines; with ids where several nodes are on one."""
    running: list[str]
    """Jobs that run in it."""
    waiting: list[str]
    """Jobs that name it and wait."""
    lacks: str
    """The amounts that it should keep and does not, as nodes are gone; "" for none."""


class LicenseInfo(Row, frozen=True):
    """A license: a count that the whole cluster has."""

    name: str
    total: int
    held: int
    holders: dict[str, int]
    """The jobs that hold some, and how many."""
    waiting: int
    """How many waiting jobs ask for."""
