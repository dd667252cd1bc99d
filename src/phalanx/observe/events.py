"""What is asked of the events of a cluster, which kinds there are, and how each reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from phalanx.model.nearest import nearest
from phalanx.model.rows.events import EventInfo

MAX_EVENTS = 10_000
"""In one answer."""
MAX_KINDS = 100
"""In a question."""

KINDS: Final[Mapping[str, str]] = {
    "submitted": "a job came",
    "changed": "a job got another size, queue, priority or time",
    "held": "a job waits until it is released",
    "released": "it may start again",
    "placed": "members of a gang have their places",
    "began": "a job's minimum runs",
    "preempted": "members gave their places to another job of their queue",
    "reclaimed": "members gave their places to a job of another queue",
    "evicted": "members gave their places back for another cause",
    "lost": "members lost their places with a node",
    "waits": "too few members run: the job waits again",
    "requeued": "a job starts again from its beginning",
    "suspended": "a job waits until it is resumed",
    "ending": "the members of a job are asked to end",
    "ended": "a job is over",
    "job-idle": "a job leaves its GPUs idle, by the rule of its queue",
    "element-failed": "an element of an array failed",
    "node-joined": "a node came",
    "node-drained": "a node gets nothing new",
    "node-undrained": "it gets new work again",
    "node-away": "the connection to a node ended, and is awaited",
    "node-refused": "a node may not join, as it speaks another version of the protocol",
    "node-back": "it is there again",
    "node-left": "somebody ended a node",
    "node-lost": "a node died, or was given up",
    "node-held": "a node that gets nothing new already is held for one more reason",
    "node-released": "it is held for one reason less",
    "device-bad": "a GPU of a node is bad: nothing new gets it",
    "device-suspect": "a GPU of a node is suspect",
    "device-well": "it is well again",
    "device-cordoned": "somebody closed a GPU",
    "device-uncordoned": "it may be used again",
    "queue-made": "a queue was made",
    "queue-changed": "a queue got other quotas",
    "queue-state": "a queue opened, is closing or closed",
    "queue-deleted": "a queue is gone",
    "reservation-made": "something is reserved",
    "reservation-changed": "a reservation is another",
    "reservation-began": "a reservation's window began",
    "reservation-ended": "its window is over",
    "reservation-deleted": "a reservation is gone",
    "infeasible": "tasks or actors wait for amounts that no node has",
    "actor-restarted": "an actor starts again",
    "rules-set": "cycles go by other rules",
    "rules-refused": "rules were refused",
    "head-began": "the head began",
    "clock-stepped": "the time of day of the head's machine was set, or the machine slept",
    "defect": "the head caught an error of its own",
}
"""What may happen. A question may name the part before a dash for all that begin so."""
OF_PLACES: Final = ("placed", "preempted", "reclaimed", "evicted", "lost")
"""What happens to the places of members."""
GAVE_WAY: Final = ("preempted", "reclaimed", "evicted")
"""Of these: their places were taken."""


class EventQuery(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """Which events: all conditions that are given hold."""

    job: str = ""
    """Of this job or gang, NAMESPACE/NAME or a name in the namespace default; what it took from
    others, too."""
    node: str = ""
    """Of this node, by its host name or the beginning of its id; members that had places there,
    too."""
    queue: str = ""
    user: str = ""
    """Of this user's jobs, or asked for by them."""
    kinds: list[str] = []
    since: float = 0.0
    until: float | None = None
    """Before that, in seconds since the epoch; None: without end."""
    after: int = 0
    """Of a larger number than this."""
    limit: int = 1_000
    """So many, the last ones; at most MAX_EVENTS."""


class EventPage(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """Events, the oldest first."""

    events: list[EventInfo]
    newest: int
    """The number of the newest event of all: who asks again for what is `after` it misses none."""
    kept: int = 0
    """So many are kept in all."""
    is_cut: bool = False
    """There are more than were asked for."""


LAST_REFUSED: Final = EventQuery(kinds=["rules-refused"], limit=1)
"""The rules that were refused last."""


def check_events(query: EventQuery) -> None:
    """Raises ValueError for a question that is none, with what is allowed."""
    if not query.since >= 0 or (query.until is not None and not query.until > query.since):
        raise ValueError(
            f"until ({query.until}) is after since ({query.since}), and since is 0 or more"
        )
    if not 1 <= query.limit <= MAX_EVENTS:
        raise ValueError(f"limit is 1 to {MAX_EVENTS:,}, not {query.limit}")
    if len(query.kinds) > MAX_KINDS:
        raise ValueError(f"kinds has {len(query.kinds)} values; {MAX_KINDS} are most")
    for kind in query.kinds:
        if not any(_is_of(name, kind) for name in KINDS):
            allowed = ", ".join(KINDS)
            raise ValueError(
                f"there are no events of kind {kind[:64]!r}{nearest(kind, KINDS)}; there are "
                f"{allowed}, and what stands before a dash means all that begin so"
            )


def is_meant(event: EventInfo, query: EventQuery) -> bool:
    """Whether a question that `check_events` let pass means this event."""
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
    """What it happened to, for people."""
    if event.kind.startswith("node"):
        return event.host or event.node[:12] or "–"
    if event.kind.startswith("device"):
        return f"{event.host or event.node[:12]}/{event.name}"
    if event.job:
        return event.job.removeprefix("default/")
    return event.name or event.queue or event.host or "–"


def told(event: EventInfo, *, names_claimant: bool = True) -> str:
    """The rest of it in a few words, for people: how many members, where, by whom and why; who got
    their places, unless that is said beside it."""
    by = event.by.removeprefix("default/")
    parts = []
    if event.state and event.kind in ("ended", "queue-state"):
        parts.append(event.state)
    if event.members:
        count = "1 member" if event.members == 1 else f"{event.members} members"
        parts.append(count + _where(event))
    if event.kind in GAVE_WAY and by:
        parts += [f"for {by}"] if names_claimant else []
    elif by:
        parts.append(f"by {by}")
    if event.why:
        parts.append(event.why)
    return "; ".join(parts)


def _where(event: EventInfo) -> str:
    if not event.places:
        return ""
    shown = [f"{host or node[:12]}" for node, host, _ in event.places[:3]]
    more = len(event.places) - len(shown)
    return f" on {', '.join(shown)}" + (f" and {more} more nodes" if more else "")
