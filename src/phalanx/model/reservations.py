"""A reservation as it is requested: the nodes, the time, and its users."""

from __future__ import annotations

import msgspec

from phalanx.model.jobs.timing import Moment

MAX_RESERVATIONS = 1_000
"""The most reservations at a time."""
MAX_NAMED = 1_000
"""The most users, queues, nodes and labels that one names, of each."""
MAX_COUNT = 1_000_000
"""The most licenses of a kind, and nodes of a reservation."""


class Reservation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A request for a reservation.

    It keeps the nodes `nodes`, or all that have `labels`, or `node_count` of them, or an amount of
    one resource in all (`amounts`) with an equal part of everything else of those nodes.

    It holds once from `start` on, or at each time of `schedule` (a cron schedule, in `time_zone`),
    for `length_s`, or until `end`; without either until it is deleted.
    """

    name: str
    start: Moment | None = None
    end: Moment | None = None
    length_s: float | None = None
    latest: Moment | None = None
    """It begins as soon as it can be kept, from `start` on and at this moment at the latest."""
    schedule: str = ""
    time_zone: str = ""
    users: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    """Users and queues whose jobs may run inside it; both empty: any job that names it."""
    nodes: tuple[str, ...] = ()
    """Nodes by id, the beginning of an id, host or address."""
    labels: tuple[tuple[str, str], ...] = ()
    node_count: int = 0
    amounts: tuple[tuple[str, float], ...] = ()
    maintenance: bool = False
    """Whether it is for maintenance: its nodes drain at that time, and are open again
    afterwards."""
    ignores_jobs: bool = False
    """Whether it is kept although jobs run into it; those jobs run on."""
