"""What the control store writes down, and reads again when the head restarts.

Tables: `nodes`, `actors`, `groups`, `jobs`, `counters`, and those of queues, gangs and batch jobs.
Values are msgpack. An answer, a confirmation of what a node told, and an order to begin or to end
something leave only when all that they speak of or rest on is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from phalanx.head.actors.table import ActorRecord
from phalanx.head.groups.record import Group, GroupRow
from phalanx.head.nodes import NodeRecord
from phalanx.model.lifecycle import DEAD, REMOVED
from phalanx.protocol.cluster_messages import JobKnown
from phalanx.storage.journal import Journal

if TYPE_CHECKING:
    from phalanx.head.control_plane import ControlPlane
    from phalanx.storage.storage import Storage

BATCH_TABLES = (
    "queues", "gangs", "batch_jobs", "flows", "crons", "templates", "priorities",
    "hypernodes",
)  # fmt: skip

_encode = msgspec.msgpack.Encoder().encode


class StateStore:
    """Records changes in a journal; without a storage, nothing is kept and all is written."""

    def __init__(
        self,
        storage: Storage | None,
        address: str = "memory",
        open_journal: Callable[[Storage], Journal] = Journal,
    ) -> None:
        self._storage = storage
        self._open_journal = open_journal
        self.address = address
        """What the store is, for people."""
        self.journal: Journal | None = None

    def restore(self, shell: ControlPlane, now: float) -> None:
        """Read what an earlier head wrote; then writing begins."""
        storage = self._storage
        if storage is None:
            return
        nodes = [msgspec.msgpack.decode(v, type=NodeRecord) for _, v in storage.load("nodes")]
        shell.nodes.restore(nodes, now)
        jobs = [msgspec.msgpack.decode(v, type=JobKnown) for _, v in storage.load("jobs")]
        count = storage.get("counters", b"jobs")
        shell.jobs.restore(int.from_bytes(count or b"", "big"), jobs)
        groups = [msgspec.msgpack.decode(v, type=GroupRow) for _, v in storage.load("groups")]
        actors = [msgspec.msgpack.decode(v, type=ActorRecord) for _, v in storage.load("actors")]
        self.journal = self._open_journal(storage)
        shell.group_table.restore(groups, now)
        shell.actor_table.restore(actors, now)
        stored = {table: [row for _, row in storage.load(table)] for table in BATCH_TABLES}
        if any(stored.values()):
            from phalanx.head.gangs.restoring import restore

            restore(shell.batch, stored)

    def when_written(self, action: Callable[[], None]) -> None:
        """Do something once all that was put so far is durable."""
        if self.journal is None:
            action()
        else:
            self.journal.record({}, action)

    def _put(self, table: str, key: bytes, row: Any) -> None:
        if self.journal is not None:
            self.journal.record({(table, key): None if row is None else _encode(row)})

    def put_node(self, record: NodeRecord) -> None:
        """A node joined, drains or is dead."""
        self._put("nodes", record.prefix, record)

    def put_actor(self, record: ActorRecord) -> None:
        """An actor's state has changed. The dead are forgotten."""
        self._put("actors", record.actor, None if record.state == DEAD else record)

    def put_group(self, group: Group) -> None:
        """A placement group's state has changed. The removed are forgotten."""
        self._put("groups", group.group, None if group.state == REMOVED else group.row())

    def put_job(self, job: JobKnown) -> None:
        """A driver has begun a job."""
        self._put("jobs", job.job, job)

    def drop_job(self, job: bytes) -> None:
        """Nothing of the job is left."""
        self._put("jobs", job, None)

    def keep(self, table: str, key: bytes, row: Any) -> None:
        """Something of queues, gangs or jobs is new or has changed; None: it is gone."""
        self._put(table, key, row)

    def put_job_count(self, count: int) -> None:
        """So many jobs were begun."""
        if self.journal is not None:
            self.journal.record({("counters", b"jobs"): count.to_bytes(8, "big")})

    def flush(self) -> None:
        """All messages that had come are handled: write what they changed."""
        if self.journal is not None:
            self.journal.flush()
