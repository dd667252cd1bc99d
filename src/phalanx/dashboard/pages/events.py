"""The data of the page Events, and of the events on the pages of nodes and jobs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

import msgspec

from phalanx.dashboard.pages.lists import ROWS, Listed, asked
from phalanx.dashboard.watch import ClusterSnapshot
from phalanx.model.rows.events import EventInfo
from phalanx.model.rows.work import JobDescription
from phalanx.observe.events import KINDS, OF_PLACES, EventQuery, details, is_meant, subject, user_of

SPANS = {"1h": 3600.0, "1d": 86_400.0, "7d": 604_800.0}
"""The spans of the filter `since`, in seconds."""
FEW = 50
"""The number of events that the page of a node or job shows."""
_FILTERS = ("q", "kind", "job", "node", "queue", "user", "since")


class EventList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of events, newest first."""

    listed: Listed[EventInfo]
    kinds: list[str]


def events(snapshot: ClusterSnapshot, words: Mapping[str, str]) -> EventList:
    """Return the events that an address selects. An unknown kind or span counts as not given."""
    wanted = asked(words, _FILTERS, "-at")
    filters = wanted.filters
    if filters.get("kind", "") not in KINDS:
        filters.pop("kind", None)
    if filters.get("since", "") not in SPANS:
        filters.pop("since", None)
    rows: Sequence[EventInfo] = snapshot.events
    if filters:
        query, said = _query(filters, snapshot.at), filters.get("q", "").lower().split()
        rows = [row for row in rows if is_meant(row, query) and _has(row, said)]
    pages = max(-(-len(rows) // ROWS), 1)
    wanted = msgspec.structs.replace(wanted, sort="", page=min(wanted.page, pages))
    end = len(rows) - (wanted.page - 1) * ROWS
    shown = list(reversed(rows[max(end - ROWS, 0) : end]))
    return EventList(
        listed=Listed(
            rows=shown, matched=len(rows), total=len(snapshot.events), asked=wanted, pages=pages
        ),
        kinds=list(KINDS),
    )


def _query(filters: Mapping[str, str], now: float) -> EventQuery:
    span_s = SPANS.get(filters.get("since", ""))
    return EventQuery(
        job=filters.get("job", ""),
        node=filters.get("node", ""),
        queue=filters.get("queue", ""),
        user=filters.get("user", ""),
        kinds=[filters["kind"]] if "kind" in filters else [],
        since=0.0 if span_s is None else max(now - span_s, 0.0),
    )


def _has(row: EventInfo, said: Sequence[str]) -> bool:
    if not said:
        return True
    text = f"{row.kind} {subject(row)} {row.queue} {user_of(row)} {details(row)}".lower()
    return all(word in text for word in said)


def command(filters: Mapping[str, str]) -> str:
    """Return the command that prints the same events."""
    named = ("kind", "job", "node", "queue", "user", "since")
    said = "".join(f" --{name} {shlex.quote(filters[name])}" for name in named if name in filters)
    return f"phalanx events{said}"


def of_node(snapshot: ClusterSnapshot, node_id: str) -> list[EventInfo]:
    """Return the last events of a node and of the members on it, newest first."""
    query = EventQuery(node=node_id)
    found = [row for row in reversed(snapshot.events) if is_meant(row, query)]
    return found[:FEW]


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A moment in a job's life: a new state, or an event about the places of its members."""

    at: float
    what: str
    said: str
    other: str = ""
    """The other job of the event, which got or lost the places."""


def steps_of(snapshot: ClusterSnapshot, job: JobDescription) -> list[Step]:
    """Return the steps of a job's life, newest first: its states, and the events about its members'
    places.
    """
    uid = f"{job.namespace}/{job.name}"
    steps = [Step(at=one.at, what=one.new, said=one.reason) for one in job.history]
    for row in snapshot.events:
        if row.kind not in OF_PLACES:
            continue
        if row.job == uid:
            said = details(row, names_claimant="/" not in row.by)
            steps.append(Step(at=row.at, what=row.kind, said=said, other=row.by))
        elif row.by == uid:
            said = f"got the places of {row.members} members of another job ({row.kind})"
            steps.append(Step(at=row.at, what="placing", said=said, other=row.job))
    return sorted(steps, key=lambda one: one.at)[::-1]
