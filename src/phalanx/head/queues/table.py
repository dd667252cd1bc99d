"""The life cycle of queues, which are created, changed, opened, closed and deleted by Volcano's
rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from phalanx.manifests.findings import Fault
from phalanx.manifests.queue_rules import (
    DEFAULT,
    ROOT,
    KnownQueue,
    QueueTree,
    delete_faults,
    no_queue,
    queue_faults,
    submit_faults,
)
from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import JobCommandError, Transition, note
from phalanx.model.lifecycle import move
from phalanx.scheduler.cycle.specs import QueueSpec

LIVE_PHASES = ("pending", "inqueue", "running", "unknown")
"""Phases of podgroups. A closing queue is not closed while it has a podgroup in one of them."""


class QueueRecord(msgspec.Struct, kw_only=True, eq=False):
    """A queue. `spec.state` is the queue's state; `podgroups` counts its podgroups by phase."""

    spec: QueueSpec
    podgroups: dict[str, int] = {}
    members: int = 0
    """The number of members of gangs, those of jobs included, that hold resources in the queue."""
    closed_by: str = ""
    """The nearest ancestor whose closing has closed this queue, too. This queue opens again when
    that ancestor opens. "" if this queue is open or was closed by its own command.
    """
    history: list[Transition] = []

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def state(self) -> str:
        return self.spec.state or st.OPEN

    @property
    def is_empty(self) -> bool:
        return not any(self.podgroups.get(phase, 0) for phase in LIVE_PHASES)


class QueueEffects(Protocol):
    """Requests that the queues make to their shell."""

    def publish(self, queue: QueueRecord) -> None:
        """Store a new or changed queue, and report it to its watchers."""
        ...

    def forget(self, queue: QueueRecord) -> None:
        """Forget a deleted queue."""
        ...


class QueueTable:
    """All queues, by name. `root` and `default` always exist.

    An invalid command raises JobCommandError with all of its faults, and changes nothing.
    """

    def __init__(self, effects: QueueEffects) -> None:
        self._effects = effects
        self._queues: dict[str, QueueRecord] = {}
        for name in (ROOT, DEFAULT):
            self._queues[name] = QueueRecord(spec=QueueSpec(name=name))
        self._tree: QueueTree | None = None
        """The tree of the queues as last published. The tree is not built again for each submitted
        job.
        """

    def get(self, name: str) -> QueueRecord | None:
        return self._queues.get(name)

    def all(self) -> list[QueueRecord]:
        """Return every queue, root and default first, then oldest first."""
        return list(self._queues.values())

    def tree(self) -> QueueTree:
        """Return the queues in the form that the rules use."""
        if self._tree is None:
            queues = self._queues.values()
            self._tree = QueueTree(KnownQueue(spec=q.spec, members=q.members) for q in queues)
        return self._tree

    def _publish(self, queue: QueueRecord) -> None:
        self._tree = None
        self._effects.publish(queue)

    def restore(self, records: list[QueueRecord]) -> None:
        """Restore stored queues."""
        for queue in records:
            self._queues[queue.name] = queue
        self._tree = None

    def require_open(self, name: str) -> None:
        """Raise JobCommandError unless the queue accepts jobs."""
        _raise_for(submit_faults(name, self.tree()))

    def create(self, spec: QueueSpec, now: float) -> QueueRecord:
        """Create a queue."""
        if spec.name in self._queues:
            raise JobCommandError(
                f"queue {spec.name!r} exists already; `phalanx queue update {spec.name}` changes it"
            )
        _raise_for(queue_faults(spec, self.tree()))
        above = self._queues.get(spec.parent)
        if above is not None and above.state != st.OPEN and spec.state in ("", st.OPEN):
            raise JobCommandError(
                f"queue {above.name} is {above.state}: open it before you create a queue below it"
            )
        made = msgspec.structs.replace(spec, state=spec.state or st.OPEN, created=now)
        queue = self._queues[spec.name] = QueueRecord(spec=made)
        note(queue.history, now, "", queue.state, "created")
        self._publish(queue)
        return queue

    def update(self, spec: QueueSpec, now: float) -> QueueRecord:
        """Change a queue's fields. The state changes only through `open` and `close`."""
        queue = self._need(spec.name)
        kept = msgspec.structs.replace(spec, state=queue.state, created=queue.spec.created)
        settable = st.OPEN if queue.state == st.OPEN else st.CLOSED
        asked = msgspec.structs.replace(kept, state=settable)
        _raise_for(queue_faults(asked, self.tree(), queue.spec))
        queue.spec = kept
        self._publish(queue)
        return queue

    def delete(self, name: str, now: float) -> None:
        """Delete a queue. The queue must not be protected, must hold nothing, and must have no
        queue below it.
        """
        faults = delete_faults(name, self.tree())
        queue = self._queues.get(name)
        if not faults and queue is not None and not queue.is_empty:
            waiting = sum(queue.podgroups.get(p, 0) for p in LIVE_PHASES)
            reason = f"{waiting} jobs are in queue {name}; close it and let them end first"
            faults.append(Fault((), "has_podgroups", reason))
        _raise_for(faults)
        assert queue is not None
        del self._queues[name]
        self._tree = None
        self._effects.forget(queue)

    def open(self, name: str, now: float) -> None:
        """Open a queue to jobs, for the first time or again. The queues below that were closed by
        the same command are opened, too.
        """
        queue = self._need(name)
        above = self._queues.get(queue.spec.parent)
        if above is not None and above.name != ROOT and above.state != st.OPEN:
            raise JobCommandError(
                f"queue {above.name} above {name} is {above.state}: open that one first"
            )
        self._open(queue, "by command", now)
        for below in self.tree().descendants(name):
            record = self._queues[below.name]
            if record.closed_by == name:
                self._open(record, f"{name} was opened", now)

    def close(self, name: str, now: float) -> None:
        """Close a queue, and the queues below it, to new jobs. Jobs that are in these queues
        continue until they end.
        """
        queue = self._need(name)
        if name == ROOT:
            raise JobCommandError("queue root cannot be closed; close the queues below it")
        queue.closed_by = ""
        self._close(queue, "by command", now)
        tree = self.tree()
        above = {q.name for q in tree.ancestors(queue.spec)}
        for below in tree.descendants(name):
            record = self._queues[below.name]
            if record.state == st.OPEN:
                record.closed_by = name
                self._close(record, f"{name} was closed", now)
            # the nearer ancestor decides when this queue opens again
            elif record.closed_by in above:
                record.closed_by = name
                self._publish(record)

    def counted(self, name: str, podgroups: Mapping[str, int], members: int, now: float) -> None:
        """Store how many podgroups the queue now has in each phase (pending, inqueue, running,
        unknown, completed), and how many members hold resources in it. A closing queue that has
        nothing left becomes closed.
        """
        queue = self._queues.get(name)
        if queue is None or (queue.podgroups == podgroups and queue.members == members):
            return
        queue.podgroups, queue.members = dict(podgroups), members
        if queue.state == st.CLOSING and queue.is_empty:
            self._go(queue, st.CLOSED, "its last job has ended", now)
        self._publish(queue)

    def _open(self, queue: QueueRecord, reason: str, now: float) -> None:
        queue.closed_by = ""
        if queue.state != st.OPEN:
            self._go(queue, st.OPEN, reason, now)
        self._publish(queue)

    def _close(self, queue: QueueRecord, reason: str, now: float) -> None:
        if queue.state in (st.OPEN, st.UNKNOWN):
            self._go(queue, st.CLOSED if queue.is_empty else st.CLOSING, reason, now)
        self._publish(queue)

    def _need(self, name: str) -> QueueRecord:
        queue = self._queues.get(name)
        if queue is None:
            raise JobCommandError(no_queue(name, self._queues))
        return queue

    def _go(self, queue: QueueRecord, state: str, reason: str, now: float) -> None:
        note(queue.history, now, queue.state, state, reason)
        new = move(st.QUEUE, "queue", queue.state, state, queue.name)
        queue.spec = msgspec.structs.replace(queue.spec, state=new)


def _raise_for(faults: list[Fault]) -> None:
    if faults:
        raise JobCommandError("; ".join(fault.reason for fault in faults))
