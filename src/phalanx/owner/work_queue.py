"""The queue in which the work of one class, or the calls of one actor, waits to be sent."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Generic

from phalanx.objects.serialization import CallArguments
from phalanx.owner.bursts import MOST_CALLS, B, Burst, W

SEAL_FROM = 4 * MOST_CALLS
"""If a queue has more than this number of calls, the arguments in its full bursts are pickled
early.
"""
LOOK_AFTER = 16
"""The smallest number of tasks or calls by which a queue must grow before sending is tried again.

The more tasks or calls are in flight or wait after a try, the more must be added before the next
one. Each try costs a message to each worker, or finds that no worker has room.
"""
LOOK_AFTER_MOST = 256
"""The largest number of tasks or calls by which a queue must grow before sending is tried again."""


class WorkQueue(Generic[W, B]):
    """Work in the order in which it will be sent: records and bursts."""

    __slots__ = ("_entries", "last", "open", "pump_at", "size")

    def __init__(self) -> None:
        self._entries: deque[W | B] = deque()
        self.size = 0
        """The number of tasks or calls."""
        self.open: B | None = None
        """The burst at the end of the queue, if it takes more calls."""
        self.last = 0
        """The number of the work that was submitted last."""
        self.pump_at = 0
        """The size that the queue must reach before sending is tried again."""

    def __len__(self) -> int:
        """Return the number of tasks or calls."""
        return self.size

    def __bool__(self) -> bool:
        """Whether there is work."""
        return self.size > 0

    def __contains__(self, work: object) -> bool:
        """Whether this record is in the queue."""
        return work in self._entries

    def __iter__(self) -> Iterator[W | B]:
        """Yield the records and bursts."""
        return iter(self._entries)

    @property
    def head(self) -> W | B:
        """The record or burst that is sent next."""
        return self._entries[0]

    def append(self, work: W) -> None:
        """Add a record at the end."""
        self._entries.append(work)
        self.size += 1
        self.open = None

    def appendleft(self, work: W) -> None:
        """Add a record at the front."""
        self._entries.appendleft(work)
        self.size += 1

    def extendleft(self, works: Iterable[W]) -> None:
        """Add these records at the front one by one, so that the last of them comes first."""
        for work in works:
            self.appendleft(work)

    def begin(self, burst: B) -> None:
        """Add an empty burst at the end, which takes the next calls."""
        self._entries.append(burst)
        self.open = burst

    def add(self, burst: B, number: int, args: CallArguments, ref: Any, created: float) -> None:
        """Add call `number` to the open burst."""
        burst.args.append(args)
        refs = burst.refs
        refs.append(ref)
        burst.created.append(created)
        self.last = number
        self.size += 1
        if len(refs) == MOST_CALLS:
            self.open = None
            if self.size > SEAL_FROM:
                burst.seal()

    def look_later(self, sent: int) -> None:
        """Set the size of the queue at which sending is tried again. `sent`: the number of tasks or
        calls that were sent and have not ended.
        """
        more = max(LOOK_AFTER, min(max(sent, self.size), LOOK_AFTER_MOST))
        self.pump_at = self.size + more

    def take(self, count: int) -> W | B:
        """Remove the record at the front, or the first `count` calls of the burst at the front."""
        head = self._entries[0]
        if not isinstance(head, Burst):
            self.size -= 1
            return self._entries.popleft()
        part = head.cut(count)
        self.size -= len(part.refs)
        if part is head:
            self._entries.popleft()
            if self.open is head:
                self.open = None
        return part

    def popleft(self) -> W:
        """Remove the first task or call, and return its record."""
        first = self.take(1)
        return first.records()[0] if isinstance(first, Burst) else first

    def put_back(self, entries: Iterable[W | B]) -> None:
        """Add records and bursts that were taken before, at the end of the queue. The bursts take
        no more calls.
        """
        for entry in entries:
            self._entries.append(entry)
            self.size += len(entry) if isinstance(entry, Burst) else 1
            self.open = None

    def take_all(self) -> list[W]:
        """Remove everything. Returns a record of each task or call, in order."""
        found: list[W] = []
        for entry in self._entries:
            if isinstance(entry, Burst):
                found += entry.records()
            else:
                found.append(entry)
        self._entries.clear()
        self.size, self.open = 0, None
        return found

    def remove(self, work: W) -> None:
        """Remove a record. Raises ValueError if it is not here."""
        self._entries.remove(work)
        self.size -= 1

    def split(self, burst: B, number: int) -> None:
        """Give a call of a burst a record of its own, in the same place."""
        at = self._entries.index(burst)
        del self._entries[at]
        parts = burst.split(number)
        for part in reversed(parts):
            self._entries.insert(at, part)
        if self.open is burst and burst is not parts[-1]:
            self.open = None
