"""Queries for the events of a cluster, the kinds of events, and the text of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from phalanx.model.nearest import nearest
from phalanx.model.rows.events import EventInfo

MAX_EVENTS = 10_000
"""The largest number of events in one answer."""
MAX_KINDS = 100
"""The largest number of kinds in a query."""

KINDS: Final[Mapping[str, str]] = {
    "submitted": "a job was submitted",
    "changed": "a job got another size, queue, priority or time",
    "held": "a job is held until it is released",
    "released": "a held job may start again",
    "placed": "members of a gang have their places",
    "began": "a job's minimum runs",
    "preempted": "members gave their places to another job of their queue",
    "reclaimed": "members gave their places to a job of another queue",
    "evicted": "members gave their places back for another reason",
    "lost": "members lost their places with a node",
    "waits": "too few members run: the job waits again",
    "requeued": "a job starts again from its beginning",
    "suspended": "a job waits until it is resumed",
    "ending": "the members of a job are asked to end",
    "ended": "a job has ended",
    "job-idle": "a job leaves its GPUs idle, by its queue's rule",
    "element-failed": "an array task failed",
    "node-joined": "a node joined",
    "node-drained": "a node gets no new work",
    "node-undrained": "a node gets new work again",
    "node-away": "the connection to a node ended, and is expected back",
    "node-refused": "a node may not join: it speaks another version of the protocol",
    "node-back": "a node is connected again",
    "node-left": "a node was ended on purpose",
    "part-killed": "a process of a node was killed, and is started again",
    "node-lost": "a node died, or was given up",
    "node-held": "a node that gets no new work got one more reason for this",
    "node-released": "a node lost one of its reasons to get no new work",
    "device-bad": "a GPU of a node is bad: no new work gets it",
    "device-suspect": "a GPU of a node is suspect",
    "device-well": "a GPU of a node is healthy again",
    "device-cordoned": "a GPU was closed by hand",
    "device-uncordoned": "a closed GPU may be used again",
    "queue-made": "a queue was made",
    "queue-changed": "a queue got other quotas",
    "queue-state": "a queue opened, is closing or closed",
    "queue-deleted": "a queue was deleted",
    "reservation-made": "a reservation was made",
    "reservation-changed": "a reservation was changed",
    "reservation-began": "a reservation's window began",
    "reservation-ended": "a reservation's window ended",
    "reservation-deleted": "a reservation was deleted",
    "infeasible": "tasks or actors wait for amounts that no node has",
    "actor-restarted": "an actor starts again",
    "rules-set": "the scheduler's configuration was changed",
    "rules-refused": "rules were refused",
    "head-began": "the head started",
    "clock-stepped": "the head's clock was set, or its machine slept",
    "defect": "the head caught an error of its own",
}
"""The kinds of events, with their meanings. In a query, the part of a kind before a dash selects
all kinds with this beginning: `node` selects `node-joined`, `node-lost` and so on.
"""
OF_PLACES: Final = ("placed", "preempted", "reclaimed", "evicted", "lost")
"""The kinds of events about the places of members."""
GAVE_WAY: Final = ("preempted", "reclaimed", "evicted")
"""The kinds of `OF_PLACES` in which members lost their places."""


class EventQuery(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """A query for events. It selects the events that meet all given conditions."""

    job: str = ""
    """Select only events of this job or gang (NAMESPACE/NAME, or a name in the namespace default),
    and events of work that it preempted.
    """
    node: str = ""
    """Select only events of this node (given by its host name or the beginning of its id), and
    events about members that are or were on it.
    """
    queue: str = ""
    user: str = ""
    """Select only events of this user's jobs, and events that this user caused."""
    kinds: list[str] = []
    since: float = 0.0
    until: float | None = None
    """Select only events before this time, in seconds since the epoch; None for no bound."""
    after: int = 0
    """Select only events whose number is larger than this number."""
    limit: int = 1_000
    """The number of events to return, at most MAX_EVENTS. If more match, the latest events are
    returned.
    """


class EventPage(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """The answer: events, the oldest first."""

    events: list[EventInfo]
    newest: int
    """The number of the newest event, even if the query does not select it. A later query with this
    number as `after` misses no event.
    """
    kept: int = 0
    """The number of events that the head keeps."""
    is_cut: bool = False
    """Whether more events match than `limit`."""


LAST_REFUSED: Final = EventQuery(kinds=["rules-refused"], limit=1)
"""The query for the latest event of a refused scheduler configuration."""


def check_events(query: EventQuery) -> None:
    """Raise ValueError for an invalid query; the error says what is allowed."""
    if not query.since >= 0 or (query.until is not None and not query.until > query.since):
        raise ValueError(
            f"until ({query.until}) must be after since ({query.since}), "
            "and since must be 0 or more"
        )
    if not 1 <= query.limit <= MAX_EVENTS:
        raise ValueError(f"limit must be 1 to {MAX_EVENTS:,}, not {query.limit}")
    if len(query.kinds) > MAX_KINDS:
        raise ValueError(f"kinds has {len(query.kinds)} values; at most {MAX_KINDS} are allowed")
    for kind in query.kinds:
        if not any(_is_of(name, kind) for name in KINDS):
            allowed = ", ".join(KINDS)
            raise ValueError(
                f"there are no events of kind {kind[:64]!r}{nearest(kind, KINDS)}; known kinds: "
                f"{allowed}; the part before a dash stands for all that begin so"
            )


def is_meant(event: EventInfo, query: EventQuery) -> bool:
    """Whether a query that `check_events` accepted selects this event."""
    if event.number <= query.after or event.at < query.since:
        return False
    if query.until is not None and event.at >= query.until:
        return False
    if query.kinds and not any(_is_of(event.kind, kind) for kind in query.kinds):
        return False
    if query.queue and event.queue != query.queue:
        return False
    if query.user and query.user not in (event.user, event.by):
        return False
    if query.job:
        job = query.job if "/" in query.job else f"default/{query.job}"
        if job not in (event.job, event.by):
            return False
    return not query.node or any(
        query.node == host or node.startswith(query.node)
        for node, host in _nodes_of(event)
        if node or host
    )


def _nodes_of(event: EventInfo) -> list[tuple[str, str]]:
    return [(event.node, event.host), *((node, host) for node, host, _ in event.places)]


def _is_of(name: str, kind: str) -> bool:
    return name == kind or name.startswith(f"{kind}-")


def subject(event: EventInfo) -> str:
    """Return what an event happened to, for display."""
    if event.kind.startswith("node"):
        return event.host or event.node[:12] or "–"
    if event.kind.startswith("device"):
        return f"{event.host or event.node[:12]}/{event.name}"
    if event.job:
        return event.job.removeprefix("default/")
    return event.name or event.queue or event.host or "–"


def user_of(event: EventInfo) -> str:
    """Return the user to show for an event: the owner of its job. For an event of a queue, a node
    or another thing without an owner, it is the user who caused the event.
    """
    is_request = not (event.user or event.job or event.kind in GAVE_WAY)
    return event.by if is_request else event.user


def details(event: EventInfo, *, names_claimant: bool = True) -> str:
    """Return further facts of an event as a short text for display: the number of members, their
    nodes, a requesting user who is not the owner, and the reason. With `names_claimant`, also name
    the gang that got the places.
    """
    by = event.by.removeprefix("default/")
    parts = []
    if event.state and event.kind in ("ended", "queue-state"):
        parts.append(event.state)
    if event.members:
        count = "1 member" if event.members == 1 else f"{event.members} members"
        parts.append(count + _where(event))
    if event.kind in GAVE_WAY and by:
        parts += [f"for {by}"] if names_claimant else []
    elif by and by != user_of(event):
        parts.append(f"requested by {by}")
    if event.why:
        parts.append(event.why)
    return "; ".join(parts)


def _where(event: EventInfo) -> str:
    if not event.places:
        return ""
    shown = [f"{host or node[:12]}" for node, host, _ in event.places[:3]]
    more = len(event.places) - len(shown)
    return f" on {', '.join(shown)}" + (f" and {more} more nodes" if more else "")
