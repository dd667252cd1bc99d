"""Rows of a cluster's events: what happened, to what, by whom and why."""

from __future__ import annotations

from phalanx.model.rows.row import Row


class EventInfo(Row, frozen=True):
    """An event. Fields that do not apply to its kind are empty."""

    number: int
    """Grows from one event to the next, also across restarts of the head."""
    at: float
    """In seconds since the epoch, by the head's clock."""
    kind: str
    """One of `observe.events.KINDS`."""
    job: str = ""
    """NAMESPACE/NAME of the job, or of the gang of tasks or actors."""
    queue: str = ""
    user: str = ""
    """The user whose job it is, if known."""
    node: str = ""
    """The id of the node, in hex."""
    host: str = ""
    """The host name of that node's machine."""
    name: str = ""
    """Any other thing it concerns: a reservation, an actor, the file of rules."""
    by: str = ""
    """The user who asked for it, as given to the command, or the job that got the place."""
    why: str = ""
    state: str = ""
    """The state of a job or a queue from then on."""
    members: int = 0
    """The number of members it concerns."""
    places: tuple[tuple[str, str, int], ...] = ()
    """Where these members are or were: (node, host, members) of each node, at most 256 of them."""
