"""The head's side of its store: writes changes, and reads the rows when the head restarts.

Tables: `nodes`, `actors`, `groups`, `jobs`, `counters`, `values`, `events`, `roles`, `tokens`, and
the tables of queues, gangs and batch jobs. Values are msgpack. Three kinds of messages are sent
only when all changes that they mention or depend on are written: answers, confirmations of a node's
report, and orders to start or end something.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import msgspec

from phalanx.head.actors.table import ActorRecord
from phalanx.head.clock import ClockAnchor
from phalanx.head.groups.record import Group, GroupRow
from phalanx.head.nodes.record import NodeRecord
from phalanx.model.lifecycle import DEAD, REMOVED
from phalanx.model.rows.events import EventInfo
from phalanx.model.rows.key_values import KeptValue
from phalanx.model.rows.rights import RoleInfo
from phalanx.protocol.cluster_messages import JobKnown

GANG_TABLES = (
    "queues", "gangs", "batch_jobs", "flows", "crons", "templates", "priorities",
    "hypernodes", "elements", "reservations", "licenses", "attempts", "steps",
    "rules", "shares", "promises", "runs",
)  # fmt: skip

_encode = msgspec.msgpack.Encoder().encode


class Journal(Protocol):
    """Writes changes in the order in which they were recorded. Callers do not wait for it."""

    @property
    def shortage(self) -> str:
        """Why the store has too little room for new work, for display; empty if it has enough."""
        ...

    @property
    def is_stalled(self) -> bool:
        """Whether nothing can be written now because the store has no room."""
        ...

    def record(
        self,
        changes: dict[tuple[str, bytes], bytes | None],
        durable: Callable[[], None] | None = None,
    ) -> None:
        """Write these rows by table and key, all or none. None in place of a row deletes the row.
        `durable` is called when these changes and all earlier changes are written.
        """
        ...

    def flush(self) -> None:
        """Start writing the recorded changes."""
        ...


class StoredRows(Protocol):
    """The tables that an earlier head wrote, as rows."""

    def load(self, table: str) -> Iterable[tuple[bytes, bytes]]:
        """Return the rows of a table: (key, value)."""
        ...

    def get(self, table: str, key: bytes) -> bytes | None:
        """Return one value; None if the key has no value."""
        ...


class StoredState(msgspec.Struct, frozen=True, kw_only=True):
    """The rows that an earlier head wrote. Rows of gangs and jobs are not decoded: most heads have
    none, and the code that decodes them is imported with the gang scheduler.
    """

    nodes: list[NodeRecord] = []
    drivers: list[JobKnown] = []
    driver_count: int = 0
    groups: list[GroupRow] = []
    actors: list[ActorRecord] = []
    values: list[KeptValue] = []
    events: list[EventInfo] = []
    roles: list[RoleInfo] = []
    tokens: list[bytes] = []
    """The encoded rows of tokens."""
    clock: ClockAnchor | None = None
    of_gangs: Mapping[str, list[bytes]] = {}
    """The encoded rows of gangs, by table."""


def read_state(rows: StoredRows) -> StoredState:
    """Return the rows that an earlier head wrote. Call this before a journal writes to the same
    tables.
    """
    decode = msgspec.msgpack.decode
    clock = rows.get("counters", b"clock")
    return StoredState(
        nodes=[decode(value, type=NodeRecord) for _, value in rows.load("nodes")],
        drivers=[decode(value, type=JobKnown) for _, value in rows.load("jobs")],
        driver_count=int.from_bytes(rows.get("counters", b"jobs") or b"", "big"),
        groups=[decode(value, type=GroupRow) for _, value in rows.load("groups")],
        actors=[decode(value, type=ActorRecord) for _, value in rows.load("actors")],
        values=[decode(value, type=KeptValue) for _, value in rows.load("values")],
        events=[decode(value, type=EventInfo) for _, value in rows.load("events")],
        tokens=[value for _, value in rows.load("tokens")],
        roles=[decode(value, type=RoleInfo) for _, value in rows.load("roles")],
        clock=None if clock is None else decode(clock, type=ClockAnchor),
        of_gangs={table: [value for _, value in rows.load(table)] for table in GANG_TABLES},
    )


class StateStore:
    """Records changes in a journal. Without a journal, nothing is stored, and each change counts as
    written immediately.
    """

    def __init__(self, journal: Journal | None = None, address: str = "memory") -> None:
        self._journal = journal
        self.address = address
        """The store's address, for display."""
        self._reads: dict[int, Callable[[], None]] = {}
        """Answers to queries. Each answer is sent once everything that it mentions is written."""
        self._read_numbers = itertools.count()

    @property
    def shortage(self) -> str:
        """Why the head accepts no new work, for display; "" if it accepts work."""
        return "" if self._journal is None else self._journal.shortage

    def when_written(self, action: Callable[[], None]) -> None:
        """Run an action once all changes so far are durable."""
        if self._journal is None:
            action()
        else:
            self._journal.record({}, action)

    def when_written_or_stalled(self, action: Callable[[], None]) -> None:
        """Run an action once all changes so far are durable, or as soon as the store cannot be
        written to.
        """
        if self._journal is None or self._journal.is_stalled:
            action()
            return
        number = next(self._read_numbers)
        self._reads[number] = action

        def written() -> None:
            waiting = self._reads.pop(number, None)  # None: the query was answered before
            if waiting is not None:
                waiting()

        self._journal.record({}, written)

    def keep(self, table: str, key: bytes, row: Any) -> None:
        """Store a new or changed row; None deletes the stored one."""
        if self._journal is not None:
            self._journal.record({(table, key): None if row is None else _encode(row)})

    def put_node(self, record: NodeRecord) -> None:
        """Store a node that has joined, drains or is dead."""
        self.keep("nodes", record.prefix, record)

    def put_actor(self, record: ActorRecord) -> None:
        """Store an actor whose state has changed. A dead actor is deleted."""
        self.keep("actors", record.actor, None if record.state == DEAD else record)

    def put_group(self, group: Group) -> None:
        """Store a placement group whose state has changed. A removed group is deleted."""
        if self._journal is not None:
            self.keep("groups", group.group, None if group.state == REMOVED else group.row())

    def put_job(self, job: JobKnown) -> None:
        """Store a job that a driver has begun."""
        self.keep("jobs", job.job, job)

    def drop_job(self, job: bytes) -> None:
        """Delete a driver's job after everything that belonged to it has ended."""
        self.keep("jobs", job, None)

    def put_job_count(self, count: int) -> None:
        """Store the number of jobs that drivers have begun so far."""
        if self._journal is not None:
            self._journal.record({("counters", b"jobs"): count.to_bytes(8, "big")})

    def put_clock(self, anchor: ClockAnchor) -> None:
        """Store the relation between the clocks of the head's machine."""
        self.keep("counters", b"clock", anchor)

    def beat(self) -> None:
        """Write a row that means nothing, so that a standby sees that this head is alive."""
        if self._journal is not None and not self._journal.is_stalled:
            self._journal.record({("counters", b"beat"): b""})

    def flush(self) -> None:
        """Write the changes of all handled messages."""
        if self._journal is None:
            return
        self._journal.flush()
        while self._reads and self._journal.is_stalled:
            self._reads.pop(next(iter(self._reads)))()
