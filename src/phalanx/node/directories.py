"""The directories that a node works in: whether they can be written to and have room.

Pure: a `DirectoryReading` takes the samples. While a directory is full or cannot be written to,
each report of the node says so, the head gives the node nothing new, and work ordered there goes
elsewhere. The node takes work again once all directories are well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from phalanx.node.notes import Note

LOOK_EVERY_S = 1.0
"""Seconds between looks at the directories."""
FRESH_S = 0.1
"""Seconds for which the result of a look is used: members that begin or end in this time cause no
other look.
"""
LEAST_BYTES = 16 << 20
"""The least room in bytes: a directory with less room is full."""
LEAST_PART = 0.02
"""The part of a small file system that must be free: a directory with less free is full."""
WELL_AGAIN = 2
"""A full directory is well again once it has this multiple of the least room."""
LOST_BYTES = 64 << 10
"""The room in bytes below which printed output may be lost."""


class DirectorySample(msgspec.Struct, frozen=True, kw_only=True):
    """A directory as it was last seen."""

    what: str
    """The purpose of the directory, for display."""
    path: str
    error: str = ""
    """Why nothing can be written in the directory, in the words of the system."""
    free: int = 0
    """Bytes that this user may still write."""
    total: int = 0
    """The size of the directory's file system in bytes."""
    own: int = 0
    """Bytes of objects in the directory. The node counts and limits these itself."""
    has_logs: bool = False
    """Whether the output of jobs is written in the directory."""
    is_out_of_files: bool = False


class DirectoryReading(Protocol):
    """Looks at the directories of a node."""

    def look(self, writes: bool) -> Sequence[DirectorySample]:
        """Return a sample of each directory. `writes`: whether to also try to write a file."""
        ...


class NoDirectories:
    """The reading of a node whose directories are not watched."""

    def look(self, writes: bool) -> Sequence[DirectorySample]:
        """Return no samples."""
        return ()


class Directories:
    """The directories of one node."""

    def __init__(
        self,
        reading: DirectoryReading,
        clock: Callable[[], float],
        note: Note,
    ) -> None:
        self._reading = reading
        self._clock = clock
        self._note = note
        self.make_room: Callable[[], bool] = lambda: False
        """Drops an old output file of a job. Returns False if there is none."""
        self._look_at = float("-inf")
        self._full_at = float("-inf")
        """The time when the directory for output last had no room."""
        self.trouble = ""
        """Why the node takes nothing new, for display; empty when all is well."""

    def tick(self, now: float) -> None:
        """Look at the directories again if it is time."""
        if now >= self._look_at:
            self.look(writes=bool(self.trouble))

    def seen(self) -> str:
        """Return the trouble that was seen within the last FRESH_S seconds."""
        is_fresh = self._clock() < self._look_at - LOOK_EVERY_S + FRESH_S
        return self.trouble if is_fresh and not self.trouble else self.look()

    def look(self, writes: bool = False) -> str:
        """Look at the directories now, and return their trouble. `writes`: whether something could
        not be written just now.
        """
        now = self._clock()
        self._look_at = now + LOOK_EVERY_S
        found = self._reading.look(writes)
        while any(one.has_logs and _is_full(one, bool(self.trouble)) for one in found):
            if not self.make_room():
                break
            found = self._reading.look(writes)
        if any(one.has_logs and (one.error or one.free < LOST_BYTES) for one in found):
            self._full_at = now
        before, self.trouble = self.trouble, trouble_of(found, bool(self.trouble))
        if self.trouble != before:
            self._note(self.trouble or "its directories are well again")
        return self.trouble

    def was_full_since(self, begin: float) -> bool:
        """Whether output that was printed since `begin` may be lost."""
        return self._full_at >= begin


def trouble_of(samples: Sequence[DirectorySample], was_in_trouble: bool) -> str:
    """Return what is wrong with these directories, as a clause; empty if all are well."""
    for one in samples:
        named = f"its directory for {one.what}, {one.path},"
        if one.error:
            return f"{named} cannot be written to: {one.error}"
        if one.is_out_of_files:
            return f"{named} has no room for more files"
        if _is_full(one, was_in_trouble):
            return f"{named} is full"
    return ""


def _is_full(one: DirectorySample, was_in_trouble: bool) -> bool:
    if one.error:
        return False
    least = min(LEAST_BYTES, int(one.total * LEAST_PART))
    return one.free + one.own < least * (WELL_AGAIN if was_in_trouble else 1)
