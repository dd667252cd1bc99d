"""Checks whether the directories in which a node works can be written to and have room.

This module is pure: a `DirectoryReading` takes the samples. While a directory is full or cannot be
written to, each report of the node says so. The head then gives the node no new work, and places
the work that it has just ordered there on other nodes. The node takes work again once all
directories are usable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from phalanx.node.notes import Note

LOOK_EVERY_S = 1.0
"""Seconds between two readings of the directories."""
FRESH_S = 0.1
"""Seconds for which a reading stays valid. Members that begin or end in this time cause no other
reading.
"""
LEAST_BYTES = 16 << 20
"""The least room in bytes. A directory with less room is full."""
LEAST_PART = 0.02
"""On a small file system, this fraction of it must be free instead of LEAST_BYTES. A directory with
less room is full.
"""
WELL_AGAIN = 2
"""A full directory is usable again when its room is at least this multiple of the least room."""
LOST_BYTES = 64 << 10
"""The room in bytes below which printed output may have been lost."""


class DirectorySample(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a directory when it was last read."""

    what: str
    """The purpose of the directory, for display."""
    path: str
    error: str = ""
    """Why nothing can be written in the directory, as the system reports it."""
    free: int = 0
    """The bytes that this user may still write."""
    total: int = 0
    """The size of the directory's file system in bytes."""
    own: int = 0
    """The bytes of objects in the directory. The node itself counts and limits these."""
    has_logs: bool = False
    """Whether the output of jobs is written to the directory."""
    is_out_of_files: bool = False


class DirectoryReading(Protocol):
    """Reads the states of a node's directories."""

    def look(self, writes: bool) -> Sequence[DirectorySample]:
        """Return a sample of each directory. `writes`: whether to try to write a file, too."""
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
        """Drops one old output file of a job. Returns False if no such file is left."""
        self._look_at = float("-inf")
        self._full_at = float("-inf")
        """The time when the directory for output was last full."""
        self.trouble = ""
        """Why the node takes no new work, for display; "" if it takes work."""

    def tick(self, now: float) -> None:
        """Read the directories if it is time."""
        if now >= self._look_at:
            self.look(writes=bool(self.trouble))

    def seen(self) -> str:
        """Return in a clause what is wrong with the directories; "" if all are usable. If the last
        reading found nothing wrong and is less than FRESH_S seconds old, it is used again.
        Otherwise, the directories are read again.
        """
        is_fresh = self._clock() < self._look_at - LOOK_EVERY_S + FRESH_S
        return self.trouble if is_fresh and not self.trouble else self.look()

    def look(self, writes: bool = False) -> str:
        """Read the directories now, and return in a clause what is wrong with them; "" if all are
        usable. While the directory for output is full, old output is deleted. `writes`: whether to
        try to write a file, too, because a file could not be written before.
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
    """Return in a clause what is wrong with these directories; "" if all are usable.
    `was_in_trouble`: whether a directory was unusable before. A full directory then counts as
    usable only when it has clearly more room than the least.
    """
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
