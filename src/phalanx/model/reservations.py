"""A reservation as somebody asks for it: what of the cluster, from when, for how long, for whom."""

from __future__ import annotations

import msgspec

from phalanx.model.jobs.timing import Moment

MAX_RESERVATIONS = 1_000
"""So many there are at a time."""
MAX_NAMED = 1_000
"""So many users, queues, nodes and labels one names, of each."""
MAX_COUNT = 1_000_000
"""As many licences of a kind, and nodes of a reservation."""


class Reservation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What to keep: the nodes `nodes`, or all that have `labels`, or `node_count` of them, or so
    much of one resource in all (`amounts`), with as large a part of all else of those nodes.

    When: once from `start` on, or at each time of `schedule` (a cron schedule, in `time_zone`), for
    `length_s`, or until `end`; without either until it is deleted.
    """

    name: str
    start: Moment | None = None
    end: Moment | None = None
    length_s: float | None = None
    latest: Moment | None = None
    """It may begin later than `start`, but no later than then: as soon as it can be kept."""
    schedule: str = ""
    time_zone: str = ""
    users: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    """Whose jobs may run inside of it; neither: anybody's that name it."""
    nodes: tuple[str, ...] = ()
    """By id, the beginning of one, host or address."""
    labels: tuple[tuple[str, str], ...] = ()
    node_count: int = 0
    amounts: tuple[tuple[str, float], ...] = ()
    maintenance: bool = False
    """Nothing may run there at that time: the nodes drain then, and are open again after it."""
    ignores_jobs: bool = False
    """It is kept although jobs run into it; they run on."""
