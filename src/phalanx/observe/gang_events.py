"""Events of the members of gangs and jobs, as the head recorded them.

These are events of the cluster (see `cluster_events`) with an empty `node`, because the head
recorded them. Gangs are named `namespace/name`, members by their index in the gang.
"""

from __future__ import annotations

from phalanx.observe.cluster_events import Event


class MembersPlaced(Event, frozen=True, kw_only=True):
    """Some members of a gang were placed at the same time.

    `places`: (member, node, the member's devices by kind). `held`: the number of members that now
    hold a place. The gang needs `min_members` members that hold a place or have ended.
    """

    gang: str
    queue: str
    priority: int
    places: list[tuple[int, str, dict[str, list[int]]]]
    ports: list[int]
    held: int
    min_members: int


class MembersEvicted(Event, frozen=True, kw_only=True):
    """The scheduler decided to evict these members. `action`: the action that decided it (preempt,
    reclaim, ...).
    """

    gang: str
    queue: str
    members: list[int]
    action: str


class MembersFreed(Event, frozen=True, kw_only=True):
    """The places of these members have become free. `why`: "ended" if the members have ended,
    "evicted" if they were evicted, "lost" if their node is lost.

    Evicted members, and members of a lost node, wait again unless they have ended in the meantime.
    """

    gang: str
    queue: str
    members: list[int]
    why: str
