"""Events of work that involves several nodes, as the nodes and the head recorded them: typed, in a
ring of limited size.

A task that is submitted, run and read on one node leaves no event. Times are in seconds since the
epoch by the clock of the machine that recorded them. Nodes are named by the first 12 hex digits of
their ids, tasks and processes by their ids in hex, objects by the names of their files.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

import msgspec

KEEP_EVENTS = 4_000


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True):
    """An event. It happened at the time `at`, and `node` recorded it."""

    at: float
    node: str


class ArgumentsLocated(Event, frozen=True, kw_only=True):
    """An owner is about to submit a task with large arguments on other nodes.

    `objects`: (name, bytes, node) of each large argument. `near`: the node that the task prefers;
    "" if the owner's node has most of the bytes.
    """

    task: str
    name: str
    owner: str
    scheduling_class: int
    objects: list[tuple[str, int, str]]
    near: str


class DemandQueued(Event, frozen=True, kw_only=True):
    """A node was asked for workers, and could not give all of them immediately."""

    owner: str
    scheduling_class: int
    resources: dict[str, float]
    count: int


class Forwarded(Event, frozen=True, kw_only=True):
    """A node passed the demand for workers on to the head."""

    owner: str
    scheduling_class: int


class NodeChosen(Event, frozen=True, kw_only=True):
    """A node was chosen for a demand, and is asked for `count` workers."""

    owner: str
    scheduling_class: int
    chosen: str
    count: int


class LeaseLent(Event, frozen=True, kw_only=True):
    """A node lent a worker to a process of another node."""

    owner: str
    scheduling_class: int
    worker: str


class ArgumentPresent(Event, frozen=True, kw_only=True):
    """A task arrived at a node that already has this argument of the task."""

    object: str
    bytes: int


class PullStarted(Event, frozen=True, kw_only=True):
    """A node began to fetch an object of another node."""

    object: str
    bytes: int
    source: str


class PullEnded(Event, frozen=True, kw_only=True):
    """A node has finished fetching the object; `failure` says why it failed, if it did."""

    object: str
    bytes: int
    source: str
    seconds: float
    failure: str


class Executed(Event, frozen=True, kw_only=True):
    """A task has run on `node`. The task's owner is on another node."""

    task: str
    name: str
    state: str
    worker: str
    started: float


class ResultStored(Event, frozen=True, kw_only=True):
    """A node wrote a large value at the time `at`. The owner of the value is a process of another
    node.
    """

    object: str
    bytes: int
    owner: str


class ReaderWaits(Event, frozen=True, kw_only=True):
    """A reader waits for the result of a task whose arguments are on other nodes."""

    task: str
    reader: str


class LocationKnown(Event, frozen=True, kw_only=True):
    """The owner of a task learned that the task's large result is on another node."""

    task: str
    object: str
    bytes: int
    stored_on: str


class ReadersNotified(Event, frozen=True, kw_only=True):
    """The processes that waited for a task's result were notified. `readers`: the number of these
    processes.
    """

    task: str
    object: str
    readers: int


class NodeJoined(Event, frozen=True, kw_only=True):
    """The head admitted a node, for the `epoch`-th time."""

    hostname: str
    epoch: int


class NodeDied(Event, frozen=True, kw_only=True):
    """The head declared a node dead."""

    reason: str


class EventRing:
    """A ring of the latest events, the oldest first. The events are kept as dicts, in which form
    messages carry them.
    """

    def __init__(self, keep: int = KEEP_EVENTS) -> None:
        self._rows: deque[dict[str, Any]] = deque(maxlen=keep)

    def __len__(self) -> int:
        return len(self._rows)

    def record(self, event: Event) -> None:
        """Add an event, which replaces the oldest one when the ring is full."""
        self._rows.append(msgspec.to_builtins(event))

    def extend(self, rows: Iterable[dict[str, Any]]) -> None:
        """Add the events that another process recorded."""
        self._rows.extend(rows)

    def rows(self) -> list[dict[str, Any]]:
        """Return all events as dicts; the key "event" names the type."""
        return list(self._rows)

    def drain(self) -> list[dict[str, Any]]:
        """Return all events, and empty the ring."""
        rows = list(self._rows)
        self._rows.clear()
        return rows
