"""Admits ordinary tasks of queues to an engine that does its own scheduling.

Tasks come in batches of equal tasks. Waiting batches are ordered by priority, then by the past use
of their queue divided by its weight (the smallest first), then by age. The past use of a queue is
the sum of the queue's share of the cluster over time. This share is the largest of the queue's
shares of single resources. A queue that was idle continues at the level of the other queues, as in
start-time fair queueing.

Batches are admitted while the admitted tasks request less than twice the cluster's resources. So
the engine still has work while ends of tasks are being reported, and an urgent task does not wait
behind a long backlog.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping

import msgspec

_Kind = tuple[str, int, tuple[tuple[str, float], ...]]


class Batch(msgspec.Struct, kw_only=True, eq=False):
    """Equal tasks that are admitted together. `needs` is the request of one task, by resource."""

    ticket: bytes
    owner: bytes
    queue: str
    priority: int
    needs: dict[str, float]
    size: int = 0
    """The number of tasks; 0 until the owner has reported it. Until then the batch may still grow,
    and is not admitted.
    """
    done: int = 0
    is_admitted: bool = False
    admitted_at: float = 0.0
    """The time when the batch was admitted; 0 if an earlier table admitted it."""


AHEAD = 2.0
"""Batches are admitted while the admitted tasks request less than this multiple of the cluster's
resources.
"""
FIRST_HOLD_S = 0.1
NEW_PART = 0.2
"""The weight of a new value in the exponential average of the time for which batches hold their
resources. The average starts at FIRST_HOLD_S.
"""


class Share(msgspec.Struct, frozen=True):
    """The rights of a queue: its weight among other queues, and the largest amounts that it may
    use, by resource.
    """

    weight: float = 1.0
    capability: Mapping[str, float] = {}


class AdmissionTable:
    """All batches that have not ended."""

    def __init__(self) -> None:
        self._batches: dict[bytes, Batch] = {}
        self._waiting: dict[_Kind, deque[Batch]] = {}
        self._used: dict[str, dict[str, float]] = {}
        self._arrivals: dict[bytes, int] = {}
        self._count = 0
        self._busy: Counter[str] = Counter()
        """The number of batches of each queue that has any."""
        self._had: dict[str, float] = {}
        """For each queue: the integral over time of the share of the cluster that it used, in
        seconds, divided by its weight.
        """
        self._now = 0.0
        self._hold_s = FIRST_HOLD_S
        self.capacity: Mapping[str, float] = {}
        """The cluster's resources for ordinary tasks."""
        self.shares: Mapping[str, Share] = {}

    def advance(self, now: float) -> None:
        """Set the time to `now`, in seconds that never go backwards."""
        passed, self._now = now - self._now, now
        for queue in self._used:
            self._had[queue] = self._had.get(queue, 0.0) + self._share(queue) * passed

    def ask(self, batch: Batch) -> None:
        """Add a batch that waits for admission. A repeated request changes nothing."""
        if batch.ticket in self._batches:
            return
        busy = self._busy
        if batch.queue not in busy and busy:
            behind = min(self._had.get(queue, 0.0) for queue in busy)
            self._had[batch.queue] = max(self._had.get(batch.queue, 0.0), behind)
        self._know(batch)
        self._waiting.setdefault(_kind(batch), deque()).append(batch)

    def restore(self, batch: Batch) -> None:
        """Restore a batch that an earlier table admitted, of which `size` tasks have not ended."""
        if batch.ticket not in self._batches:
            self._know(batch)
            batch.is_admitted = True
            self._charge(batch, batch.size)

    def sized(self, ticket: bytes, size: int) -> None:
        """Fix the batch's size: no more tasks will join it. A repeated call changes nothing."""
        batch = self._batches.get(ticket)
        if batch is None or batch.is_admitted or batch.size:
            return
        batch.size = size
        if not size:
            self._forget(batch)

    def done(self, ticket: bytes, count: int) -> None:
        """Count `count` more tasks of the batch as ended or cancelled."""
        batch = self._batches.get(ticket)
        if batch is None:
            return
        count = min(count, batch.size - batch.done)
        batch.done += count
        if batch.is_admitted:
            self._charge(batch, -count)
        if batch.done >= batch.size:
            if batch.admitted_at:
                self._hold_s += NEW_PART * (self._now - batch.admitted_at - self._hold_s)
            self._forget(batch)

    def owner_gone(self, owner: bytes) -> None:
        """Drop the batches of a process that has ended."""
        for batch in [one for one in self._batches.values() if one.owner == owner]:
            if batch.is_admitted:
                self._charge(batch, batch.done - batch.size)
            self._forget(batch)

    def waiting(self) -> Iterable[Batch]:
        """Return the batches that are not admitted, in no order."""
        return (batch for batch in self._batches.values() if not batch.is_admitted)

    def used(self, queue: str) -> Mapping[str, float]:
        """Return the amounts that the admitted tasks of a queue hold, or wait for in the engine, by
        resource.
        """
        return self._used.get(queue, {})

    def admit_due(self) -> list[bytes]:
        """Admit the batches that are due now. Returns their tickets in the order of admission."""
        admitted = []
        heads = {kind: batches[0] for kind, batches in self._waiting.items()}
        while heads:
            kind = min(heads, key=lambda one: self._turn(heads[one]))
            batch = heads[kind]
            if not batch.size or not self._has_room(batch):
                del heads[kind]
                continue
            batch.is_admitted, batch.admitted_at = True, self._now
            self._charge(batch, batch.size - batch.done)
            admitted.append(batch.ticket)
            waiting = self._waiting[kind]
            waiting.popleft()
            if waiting:
                heads[kind] = waiting[0]
            else:
                del heads[kind], self._waiting[kind]
        return admitted

    def _turn(self, batch: Batch) -> tuple[float, float, int]:
        queue = batch.queue
        # The queue's current holdings count as if it had always had them, because many batches may
        # be admitted at one time.
        had = self._had.get(queue, 0.0) + self._share(queue) * self._hold_s
        return -batch.priority, had, self._arrivals[batch.ticket]

    def _share(self, queue: str) -> float:
        """Return the largest of the queue's shares of the cluster's resources, divided by the
        queue's weight.
        """
        parts = [
            amount / self.capacity[name]
            for name, amount in self._used.get(queue, {}).items()
            if self._counts(name)
        ]
        return max(parts, default=0.0) / self.shares.get(queue, _PLAIN).weight

    def _has_room(self, batch: Batch) -> bool:
        """Whether a batch may be admitted now. A resource that no node has does not prevent the
        admission, because the engine may start a node for it.
        """
        limits = self.shares.get(batch.queue, _PLAIN).capability
        own = self._used.get(batch.queue, {})
        for name, amount in batch.needs.items():
            all_used = sum(used.get(name, 0.0) for used in self._used.values())
            if self._counts(name) and all_used >= AHEAD * self.capacity[name]:
                return False
            if name in limits and own.get(name, 0.0) + amount * batch.size > limits[name]:
                return False
        return True

    def _counts(self, name: str) -> bool:
        return self.capacity.get(name, 0.0) > 0

    def _charge(self, batch: Batch, tasks: int) -> None:
        used = self._used.setdefault(batch.queue, {})
        for name, amount in batch.needs.items():
            used[name] = round(used.get(name, 0.0) + amount * tasks, 4)

    def _know(self, batch: Batch) -> None:
        self._count += 1
        self._batches[batch.ticket] = batch
        self._arrivals[batch.ticket] = self._count
        self._busy[batch.queue] += 1

    def _forget(self, batch: Batch) -> None:
        del self._batches[batch.ticket], self._arrivals[batch.ticket]
        self._busy[batch.queue] -= 1
        if not self._busy[batch.queue]:
            del self._busy[batch.queue]
        if not batch.is_admitted:
            waiting = self._waiting[_kind(batch)]
            waiting.remove(batch)
            if not waiting:
                del self._waiting[_kind(batch)]


_PLAIN = Share()


def _kind(batch: Batch) -> _Kind:
    return batch.queue, batch.priority, tuple(sorted(batch.needs.items()))
