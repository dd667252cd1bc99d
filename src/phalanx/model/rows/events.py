"""Rows of a cluster's events: what happened to what, by whom, and why."""

from __future__ import annotations

from phalanx.model.rows.row import Row


class EventInfo(Row, frozen=True):
    """An event. Fields that do not apply to the event's kind are empty."""

    number: int
    """The number of the event. The number grows from one event to the next, also across restarts of
    the head.
    """
    at: float
    """The time of the event, in seconds since the epoch by the head's clock."""
    kind: str
    """The kind of the event: one of `observe.events.KINDS`."""
    job: str = ""
    """NAMESPACE/NAME of the job, or of the gang of tasks or actors."""
    queue: str = ""
    user: str = ""
    """The owner of the job that the event concerns, if known."""
    node: str = ""
    """The id of the node, in hex."""
    host: str = ""
    """The host name of that node's machine."""
    name: str = ""
    """The name of another subject of the event: a reservation, an actor, or a file with a scheduler
    configuration.
    """
    by: str = ""
    """The user who caused the event, as given to the command, or the job that got the freed
    resources.
    """
    why: str = ""
    state: str = ""
    """The state of a job or a queue after the event."""
    members: int = 0
    """The number of members that the event concerns."""
    places: tuple[tuple[str, str, int], ...] = ()
    """The nodes on which these members run or ran, as (node, host, number of members); at most 256
    nodes.
    """
