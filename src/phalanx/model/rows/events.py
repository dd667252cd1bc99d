"""Rows of what happened in a cluster: what, to what, by whom and why."""

from __future__ import annotations

from phalanx.model.rows.row import Row


class EventInfo(Row, frozen=True):
    """Something that happened. Fields that say nothing of its kind are empty."""

    number: int
    """Grows from one to the next, also where the head starts again."""
    at: float
    """In seconds since the epoch, by the head's clock."""
    kind: str
    """One of `observe.events.KINDS`."""
    job: str = ""
    """NAMESPACE/NAME of the job, or of the gang of tasks or actors."""
    queue: str = ""
    user: str = ""
    """Whose job it is, as far as that was said."""
    node: str = ""
    """The id of the node, in hex."""
    host: str = ""
    """What that node's machine is called."""
    name: str = ""
    """Of what else it concerns: a reservation, an actor, the file of rules."""
    by: str = ""
    """Who did it: the user who asked for it, as the command said, or the job that got the place."""
    why: str = ""
    state: str = ""
    """The state that a job or a queue is in from then on."""
    members: int = 0
    """How many members it concerns."""
    places: tuple[tuple[str, str, int], ...] = ()
    """Where these members are or were: (node, host, members) of each node, at most 256 of them."""
