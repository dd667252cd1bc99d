"""Ordinary tasks of queues on an engine that schedules by itself: when they may go there.

Tasks come in batches of equal ones. A batch waits at its gate until its queue is due: by priority,
then by how little the queue has had for its weight, then by age. What a queue has had is its share
of the cluster (of that resource of which it holds most) over time; one that comes back from being
idle begins where the others are, as in fair queueing by start times. Gates are opened while what
was let through is less than twice what the cluster has: so the engine is not without work while
ends are being told, and never has so much that more urgent tasks find it full.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping

import msgspec

_Kind = tuple[str, int, tuple[tuple[str, float], ...]]


class Batch(msgspec.Struct, kw_only=True, eq=False):
    """Equal tasks that pass one gate together. `needs` of one task, by resource."""

    ticket: bytes
    owner: bytes
    queue: str
    priority: int
    needs: dict[str, float]
    size: int = 0
    """0 until its owner has said how many there are: it may still grow, and waits."""
    done: int = 0
    is_open: bool = False
    opened: float = 0.0


AHEAD = 2.0
"""So many times what the cluster has may be let through."""
FIRST_HOLD_S = 0.1
NEW_PART = 0.2
"""How long a batch holds what it was given: an exponential average, which begins so."""


class Share(msgspec.Struct, frozen=True):
    """A queue's right: its weight among others, and what it may use at most, by resource."""

    weight: float = 1.0
    capability: Mapping[str, float] = {}


class GateTable:
    """All batches that are not over."""

    def __init__(self) -> None:
        self._batches: dict[bytes, Batch] = {}
        self._waiting: dict[_Kind, deque[Batch]] = {}
        self._used: dict[str, dict[str, float]] = {}
        self._arrivals: dict[bytes, int] = {}
        self._count = 0
        self._busy: Counter[str] = Counter()
        """How many batches each queue has, of those that have any."""
        self._had: dict[str, float] = {}
        """Seconds of the whole cluster, divided by the weight, that each queue has had."""
        self._now = 0.0
        self._hold_s = FIRST_HOLD_S
        self.capacity: Mapping[str, float] = {}
        """What the cluster has for ordinary tasks, by resource."""
        self.shares: Mapping[str, Share] = {}

    def advance(self, now: float) -> None:
        """The time is `now`, in seconds that never go back."""
        passed, self._now = now - self._now, now
        for queue in self._used:
            self._had[queue] = self._had.get(queue, 0.0) + self._share(queue) * passed

    def ask(self, batch: Batch) -> None:
        """A batch has come to its gate; told again, nothing happens."""
        if batch.ticket in self._batches:
            return
        busy = self._busy
        if batch.queue not in busy and busy:
            least = min(self._had.get(queue, 0.0) for queue in busy)
            self._had[batch.queue] = max(self._had.get(batch.queue, 0.0), least)
        self._know(batch)
        self._waiting.setdefault(_kind(batch), deque()).append(batch)

    def restore(self, batch: Batch) -> None:
        """A batch that was let through before, of which `size` tasks are left."""
        if batch.ticket not in self._batches:
            self._know(batch)
            batch.is_open = True
            self._charge(batch, batch.size)

    def sized(self, ticket: bytes, size: int) -> None:
        """No task will join the batch any more; it has `size`. Told again, nothing happens."""
        batch = self._batches.get(ticket)
        if batch is None or batch.is_open or batch.size:
            return
        batch.size = size
        if not size:
            self._forget(batch)

    def done(self, ticket: bytes, count: int) -> None:
        """`count` more tasks of the batch have ended, or were cancelled."""
        batch = self._batches.get(ticket)
        if batch is None:
            return
        count = min(count, batch.size - batch.done)
        batch.done += count
        if batch.is_open:
            self._charge(batch, -count)
        if batch.done >= batch.size:
            if batch.opened:
                self._hold_s += NEW_PART * (self._now - batch.opened - self._hold_s)
            self._forget(batch)

    def owner_gone(self, owner: bytes) -> None:
        """A process has ended, and its tasks with it."""
        for batch in [one for one in self._batches.values() if one.owner == owner]:
            if batch.is_open:
                self._charge(batch, batch.done - batch.size)
            self._forget(batch)

    def waiting(self) -> Iterable[Batch]:
        """Batches whose gates are shut, in no order."""
        return (batch for batch in self._batches.values() if not batch.is_open)

    def used(self, queue: str) -> Mapping[str, float]:
        """What tasks of a queue that were let through hold, or wait for, by resource."""
        return self._used.get(queue, {})

    def open_due(self) -> list[bytes]:
        """Open the gates that are due now; their tickets, in that order."""
        opened = []
        heads = {kind: batches[0] for kind, batches in self._waiting.items()}
        while heads:
            kind = min(heads, key=lambda one: self._turn(heads[one]))
            batch = heads[kind]
            if not batch.size or not self._has_room(batch):
                del heads[kind]
                continue
            batch.is_open, batch.opened = True, self._now
            self._charge(batch, batch.size - batch.done)
            opened.append(batch.ticket)
            waiting = self._waiting[kind]
            waiting.popleft()
            if waiting:
                heads[kind] = waiting[0]
            else:
                del heads[kind], self._waiting[kind]
        return opened

    def _turn(self, batch: Batch) -> tuple[float, float, int]:
        queue = batch.queue
        # What it holds now counts as had already: many gates may open at one time.
        had = self._had.get(queue, 0.0) + self._share(queue) * self._hold_s
        return -batch.priority, had, self._arrivals[batch.ticket]

    def _share(self, queue: str) -> float:
        """The part of the cluster that a queue holds, divided by its weight."""
        parts = [
            amount / self.capacity[name]
            for name, amount in self._used.get(queue, {}).items()
            if self._counts(name)
        ]
        return max(parts, default=0.0) / self.shares.get(queue, _PLAIN).weight

    def _has_room(self, batch: Batch) -> bool:
        """Resources that no node has are the engine's to judge: it may make a node for them."""
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
        if not batch.is_open:
            waiting = self._waiting[_kind(batch)]
            waiting.remove(batch)
            if not waiting:
                del self._waiting[_kind(batch)]


_PLAIN = Share()


def _kind(batch: Batch) -> _Kind:
    return batch.queue, batch.priority, tuple(sorted(batch.needs.items()))
