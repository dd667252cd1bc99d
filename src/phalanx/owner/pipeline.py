"""The work that one worker or actor was sent and has not answered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic

from phalanx.owner.bursts import B, Burst, W


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
        """Return the record with this number. A call in a burst gets its record now. Returns None
        if the work is not here.
        """
        found = self._entries.get(number)
        if found is None and (burst := self._burst_of(number)) is not None:
            self.split(burst, number)
            found = self._entries[number]
        assert not isinstance(found, Burst)
        return found

    def pop(self, number: int, default: None = None) -> W | None:
        """Remove a task or call, and return its record. Returns None if the work is not here."""
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
        """Remove calls that have ended: call `first` and the calls that follow it in its burst, at
        most `most` in all. Returns them as a burst; None if the first call is in no burst.
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
        """Yield the records, and temporary records of the calls in bursts."""
        for entry in self._entries.values():
            if isinstance(entry, Burst):
                yield from entry.views()
            else:
                yield entry

    @property
    def first(self) -> int | None:
        """The number of the oldest task or call; None if nothing is here."""
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
