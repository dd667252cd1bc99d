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
from collections.abc import Iterator
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
        """Remove the first `count` calls, and return them as another burst. If the burst has no
        other calls, returns the burst itself.
        """
        if count >= len(self.refs):
            return self
        at = self.unfinished.place_of(self)
        cut = self._cut(count)
        self.unfinished.bursts.insert(at, cut)
        return cut

    def finish(self, count: int) -> Self:
        """Remove the first `count` calls, because they have ended, and return them as another
        burst. If the burst has no other calls, returns the burst itself.
        """
        if count < len(self.refs):
            return self._cut(count)
        self._end()
        return self

    def _end(self) -> None:
        """Note that all calls have ended, or have records."""
        del self.unfinished.bursts[self.unfinished.place_of(self)]

    def view(self, number: int) -> W:
        """Return a temporary record of a call for display, without its arguments."""
        at = number - self.first
        return self._record(number, b"", self.refs[at], self.created[at])

    def views(self) -> Iterator[W]:
        """Yield a temporary record of each call, as `view` does."""
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
        """Give call `number` a record of its own.

        Returns, in order: a burst of the calls before it, the record, and this burst, which keeps
        the calls after it. Empty bursts are left out.
        """
        parts: list[W | Self] = []
        if number > self.first:
            parts.append(self.cut(number - self.first))
        alone = self.cut(1)
        parts += alone.records()
        if alone is not self:
            parts.append(self)
        return parts


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
        """Whether there are any tasks or calls."""
        return bool(self.records or self.bursts)

    def __contains__(self, number: int) -> bool:
        """Whether the task or call with this number has not ended."""
        return number in self.records or self.burst_of(number) is not None

    def __getitem__(self, number: int) -> W:
        """Return a record, or a temporary record of a call in a burst. Raises KeyError."""
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
        """Remove a record, and return it; None if there is no record."""
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
        """Return a record, or a temporary record of a call in a burst; None if the work has
        ended.
        """
        found = self.records.get(number)
        if found is None and self.bursts and (burst := self.burst_of(number)) is not None:
            return burst.view(number)  # type: ignore[no-any-return]
        return found

    def values(self) -> Iterator[W]:
        """Yield the records, and temporary records of the calls in bursts."""
        yield from self.records.values()
        for burst in self.bursts:
            yield from burst.views()

    @property
    def listed(self) -> int:
        """The number of tasks or calls that listings show."""
        records = sum(work.is_listed for work in self.records.values())
        return records + sum(len(burst) for burst in self.bursts if burst.is_listed)

    def oldest(self, count: int) -> list[W]:
        """Return at least the `count` oldest tasks or calls that listings show, in no particular
        order. (The oldest have the lowest numbers.) The result may contain some that are not among
        the oldest.
        """
        records = (work for work in self.records.values() if work.is_listed)
        found = nsmallest(count, records, key=attrgetter("number"))
        bursts = (burst for burst in self.bursts if burst.is_listed)
        calls: Iterator[W] = chain.from_iterable(burst.views() for burst in bursts)
        return [*found, *islice(calls, count)]

    def burst_of(self, number: int) -> B | None:
        """Return the burst that contains this call; None if the call is in no burst."""
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
