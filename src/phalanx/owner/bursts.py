"""Bursts: calls that a process submits one directly after another, kept as columns.

The calls of a burst have consecutive numbers, one function or method, the same options, one result
each, and no references among their arguments. A call gets a record of its own only when something
happens to it alone: it fails, is cancelled or returned, or its worker is lost.

A burst lies in a `WorkQueue` until it is sent, and in a `Pipeline` until it is answered. Both also
take records. `Unfinished` finds all of them by number.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterable, Iterator
from heapq import nsmallest
from itertools import chain, islice
from operator import attrgetter
from typing import Any, Generic, Self, TypeVar

from phalanx.objects.reference import ObjectRef
from phalanx.objects.serialization import CallArguments, pack_call, pack_calls, unpack_calls
from phalanx.owner.children import Parent
from phalanx.owner.work import PendingWork
from phalanx.protocol.messages import Payload

MOST_CALLS = 512
"""The largest number of calls in one burst."""

SEAL_FROM = 4 * MOST_CALLS
"""The size of a queue from which on the arguments in its full bursts are pickled early."""
LOOK_AFTER = 16
"""The smallest number of new tasks or calls in a growing queue after which some of them are sent.

The more were sent, or wait after a look, the less often the queue is looked at: each look costs a
send to each worker, or finds that no worker has room.
"""
LOOK_AFTER_MOST = 256
"""The largest number of new tasks or calls in a growing queue after which some of them are sent."""

W = TypeVar("W", bound=PendingWork)
B = TypeVar("B", bound="Burst[Any]")


class Burst(Generic[W]):
    """Calls with consecutive numbers, without a record for each."""

    __slots__ = ("_packed", "args", "created", "first", "parent", "refs", "unfinished")

    def __init__(self, unfinished: Unfinished[W, Any], first: int, parent: Parent | None) -> None:
        """Begin an empty burst. `first`: the number of the first call."""
        self.unfinished = unfinished
        self.first = first
        self.parent = parent
        self.refs: list[ObjectRef[Any]] = []
        """The reference to the result of each call."""
        self.created = array("d")
        """The times when the calls were submitted, in seconds since the epoch."""
        self.args: list[CallArguments] = []
        """The arguments of each call, unless they are packed."""
        self._packed = b""

    def _like(self) -> Self:
        """Return an empty burst with the same first number and the same common properties."""
        raise NotImplementedError

    def _record(self, number: int, args: Payload, ref: ObjectRef[Any], created: float) -> W:
        """Return a record of one call."""
        raise NotImplementedError

    @property
    def is_listed(self) -> bool:
        """Whether listings show the calls."""
        raise NotImplementedError

    def __len__(self) -> int:
        """Return the number of calls."""
        return len(self.refs)

    @property
    def number(self) -> int:
        """The number of the first call."""
        return self.first

    def seal(self) -> None:
        """Pickle the arguments together, because the burst is full and will wait for long."""
        self._packed, self.args = self.packed(), []

    def packed(self) -> bytes:
        """Return the arguments of all calls in one pickle."""
        return self._packed or pack_calls(self.args)

    def _open(self) -> list[CallArguments]:
        if self._packed:
            self.args, self._packed = unpack_calls(self._packed), b""
        return self.args

    def _cut(self, count: int) -> Self:
        args = self._open()
        cut = self._like()
        cut.args, self.args = args[:count], args[count:]
        cut.refs, cut.created = self.refs[:count], self.created[:count]
        del self.refs[:count], self.created[:count]
        self.first += count
        return cut

    def cut(self, count: int) -> Self:
        """Remove the first `count` calls, and return them as another burst. Returns this burst, if
        it has no more calls.
        """
        if count >= len(self.refs):
            return self
        at = self.unfinished.place_of(self)
        cut = self._cut(count)
        self.unfinished.bursts.insert(at, cut)
        return cut

    def finish(self, count: int) -> Self:
        """Remove the first `count` calls, because they have ended, and return them as another
        burst. Returns this burst, if it has no more calls.
        """
        if count < len(self.refs):
            return self._cut(count)
        self._end()
        return self

    def _end(self) -> None:
        """Note that all calls have ended, or have records."""
        del self.unfinished.bursts[self.unfinished.place_of(self)]

    def view(self, number: int) -> W:
        """Return a passing record of a call for display, without its arguments."""
        at = number - self.first
        return self._record(number, b"", self.refs[at], self.created[at])

    def views(self) -> Iterator[W]:
        """Yield a passing record of each call, as `view` does."""
        return map(self.view, range(self.first, self.first + len(self.refs)))

    def records(self) -> list[W]:
        """Give each call a record of its own. The burst ends."""
        made = [
            self._record(self.first + at, pack_call(args), self.refs[at], self.created[at])
            for at, args in enumerate(self._open())
        ]
        for record in made:
            self.unfinished[record.number] = record
        self._end()
        return made

    def split(self, number: int) -> list[W | Self]:
        """Give one call a record of its own.

        Returns, in order, the burst of the calls before it, the record, and the burst of the calls
        after it, which is this one. Empty bursts are left out.
        """
        parts: list[W | Self] = []
        if number > self.first:
            parts.append(self.cut(number - self.first))
        alone = self.cut(1)
        parts += alone.records()
        if alone is not self:
            parts.append(self)
        return parts


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
        """The size at which the queue is looked at next while it grows."""

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
        """Add each of these records at the front, the first one first."""
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
        """Set the size at which the queue is looked at next. `sent`: the number of tasks or calls
        that were sent and have not ended.
        """
        more = max(LOOK_AFTER, min(max(sent, self.size), LOOK_AFTER_MOST))
        self.pump_at = self.size + more

    def take(self, count: int) -> W | B:
        """Remove the record at the front or, of the burst at the front, the first `count` calls."""
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
        """Add records and bursts at the end, none of which takes more calls."""
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


class Pipeline(Generic[W, B]):
    """Work that was sent to one process and has not ended, in the order in which it was sent."""

    __slots__ = ("_bursts", "_entries", "size")

    def __init__(self) -> None:
        self._entries: dict[int | B, W | B] = {}
        """Records by their numbers, and bursts by themselves."""
        self._bursts: dict[B, None] = {}
        """The bursts among the entries."""
        self.size = 0
        """The number of tasks or calls."""

    def __len__(self) -> int:
        """Return the number of tasks or calls."""
        return self.size

    def __bool__(self) -> bool:
        """Whether there is work."""
        return self.size > 0

    def __contains__(self, number: int) -> bool:
        """Whether the task or call with this number is here."""
        return number in self._entries or self._burst_of(number) is not None

    def __iter__(self) -> Iterator[int]:
        """Yield the numbers of all tasks or calls."""
        for entry in self._entries.values():
            if isinstance(entry, Burst):
                yield from range(entry.first, entry.first + len(entry))
            else:
                yield entry.number

    def __getitem__(self, number: int) -> W:
        """Return the record with this number. Raises KeyError if it is not here."""
        found = self.get(number)
        if found is None:
            raise KeyError(number)
        return found

    def __setitem__(self, number: int, work: W) -> None:
        """Add a record at the end."""
        self._entries[number] = work
        self.size += 1

    def add(self, burst: B) -> None:
        """Add a burst at the end."""
        self._entries[burst] = burst
        self._bursts[burst] = None
        self.size += len(burst.refs)

    def get(self, number: int) -> W | None:
        """Return the record with this number, made now if the call is part of a burst. Returns None
        if the work is not here.
        """
        found = self._entries.get(number)
        if found is None and (burst := self._burst_of(number)) is not None:
            self.split(burst, number)
            found = self._entries[number]
        assert not isinstance(found, Burst)
        return found

    def pop(self, number: int, default: None = None) -> W | None:
        """Remove a task or call, and return its record. Returns None if it is not here."""
        found = self._entries.pop(number, None)
        if found is None:
            burst = self._burst_of(number)
            if burst is None:
                return None
            if number == burst.first and len(burst) > 1:
                (found,) = burst.cut(1).records()
            else:
                self.split(burst, number)
                found = self._entries.pop(number)
        self.size -= 1
        assert not isinstance(found, Burst)
        return found

    def finish(self, first: int, most: int) -> B | None:
        """Remove calls that have ended: call `first`, and at most `most` in all that follow it in
        its burst. Returns them as a burst; None if the first call is in no burst.
        """
        burst = self._burst_of(first)
        if burst is None:
            return None
        if first > burst.first:
            self._replace(burst, [burst.cut(first - burst.first), burst])
        done = burst.finish(most)
        if done is burst:
            self._replace(burst, [])
        self.size -= len(done.refs)
        return done

    def values(self) -> Iterator[W]:
        """Yield the records, and passing records of the calls in bursts."""
        for entry in self._entries.values():
            if isinstance(entry, Burst):
                yield from entry.views()
            else:
                yield entry

    @property
    def first(self) -> int | None:
        """The number of the oldest task or call; None if there is none."""
        return next(iter(self), None)

    def take_all(self) -> list[W]:
        """Remove everything. Returns a record of each task or call, in order."""
        found: list[W] = []
        for entry in self._entries.values():
            if isinstance(entry, Burst):
                found += entry.records()
            else:
                found.append(entry)
        self._entries.clear()
        self._bursts.clear()
        self.size = 0
        return found

    def split(self, burst: B, number: int) -> None:
        """Give a call of a burst a record of its own, in the same place."""
        self._replace(burst, burst.split(number))

    def _replace(self, burst: B, parts: list[W | B]) -> None:
        del self._bursts[burst]
        if not parts:
            del self._entries[burst]
            return
        entries: dict[int | B, W | B] = {}
        for key, entry in self._entries.items():
            if key is not burst:
                entries[key] = entry
                continue
            for part in parts:
                if isinstance(part, Burst):
                    entries[part] = part
                    self._bursts[part] = None
                else:
                    entries[part.number] = part
        self._entries = entries

    def _burst_of(self, number: int) -> B | None:
        for burst in self._bursts:
            if 0 <= number - burst.first < len(burst.refs):
                return burst
        return None


_first = attrgetter("first")


class Unfinished(Generic[W, B]):
    """All tasks, or all calls, of a process that have not ended, by number."""

    __slots__ = ("bursts", "records")

    def __init__(self) -> None:
        self.records: dict[int, W] = {}
        self.bursts: list[B] = []
        """The bursts, in the order of their numbers."""

    def __len__(self) -> int:
        """Return the number of tasks or calls."""
        return len(self.records) + sum(map(len, self.bursts))

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.records or self.bursts)

    def __contains__(self, number: int) -> bool:
        """Whether the task or call with this number has not ended."""
        return number in self.records or self.burst_of(number) is not None

    def __getitem__(self, number: int) -> W:
        """Return a record, or a passing record of a call in a burst. Raises KeyError."""
        found = self.get(number)
        if found is None:
            raise KeyError(number)
        return found

    def __setitem__(self, number: int, work: W) -> None:
        """Add a record."""
        self.records[number] = work

    def __delitem__(self, number: int) -> None:
        """Remove a record."""
        del self.records[number]

    def pop(self, number: int, default: None = None) -> W | None:
        """Remove a record, and return it; None if there is none."""
        return self.records.pop(number, default)

    def add(self, burst: B) -> None:
        """Add a new burst."""
        if self.bursts and self.bursts[-1].first > burst.first:
            insort(self.bursts, burst, key=_first)
        else:
            self.bursts.append(burst)

    def place_of(self, burst: Burst[W]) -> int:
        """Return the place of a burst in the list of all bursts."""
        return bisect_left(self.bursts, burst.first, key=_first)

    def get(self, number: int) -> W | None:
        """Return a record, or a passing record of a call in a burst; None if the work has ended."""
        found = self.records.get(number)
        if found is None and self.bursts and (burst := self.burst_of(number)) is not None:
            return burst.view(number)  # type: ignore[no-any-return]
        return found

    def values(self) -> Iterator[W]:
        """Yield the records, and passing records of the calls in bursts."""
        yield from self.records.values()
        for burst in self.bursts:
            yield from burst.views()

    @property
    def listed(self) -> int:
        """The number of tasks or calls that listings show."""
        records = sum(work.is_listed for work in self.records.values())
        return records + sum(len(burst) for burst in self.bursts if burst.is_listed)

    def oldest(self, count: int) -> list[W]:
        """Return the tasks or calls with the lowest numbers among those that listings show: all of
        the first `count`, and perhaps more.
        """
        records = (work for work in self.records.values() if work.is_listed)
        found = nsmallest(count, records, key=attrgetter("number"))
        bursts = (burst for burst in self.bursts if burst.is_listed)
        calls: Iterator[W] = chain.from_iterable(burst.views() for burst in bursts)
        return [*found, *islice(calls, count)]

    def burst_of(self, number: int) -> B | None:
        """Return the burst that contains this call; None if there is none."""
        at = bisect_right(self.bursts, number, key=_first) - 1
        if at < 0 or number - self.bursts[at].first >= len(self.bursts[at].refs):
            return None
        return self.bursts[at]

    def clear(self) -> list[W]:
        """Forget everything. Returns a record of each task or call that had not ended."""
        for burst in list(self.bursts):
            burst.records()
        found = list(self.records.values())
        self.records = {}
        return found
