"""Events of the members of gangs and jobs, as the head recorded them.

These are events of the cluster (see `cluster_events`); their `node` is empty, as the head recorded
them. Gangs are named `namespace/name`, members by their index in the gang.
"""

from __future__ import annotations

from phalanx.observe.cluster_events import Event


class MembersPlaced(Event, frozen=True, kw_only=True):
    """Members of a gang got their places, all of them at once.

    `places`: (member, node, its exact devices by kind). `held`: how many members hold a place now;
    the gang needs `min_members` of them in addition to those that have ended.
    """

    gang: str
    queue: str
    priority: int
    places: list[tuple[int, str, dict[str, list[int]]]]
    ports: list[int]
    held: int
    min_members: int


class MembersEvicted(Event, frozen=True, kw_only=True):
    """Members were asked to give back their places, by the decision of an `action`: preempt,
    reclaim ..."""

    gang: str
    queue: str
    members: list[int]
    action: str


class MembersFreed(Event, frozen=True, kw_only=True):
    """The places of these members are free: they have ended, were evicted, or their node is lost.

    `why`: ended, evicted or lost. Members that have lost or given back their places wait again,
    unless they have ended in the meantime.
    """

    gang: str
    queue: str
    members: list[int]
    why: str
