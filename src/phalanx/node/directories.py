"""The directories that a node works in: whether they can be written to, and have room.

Pure: `DirectoryReading` looks. While one of them is full or cannot be written to, the node says so
with each report, the head gives it nothing new, and what it was to start goes elsewhere. A node
takes work again once all of them are well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from phalanx.node.notes import Note

LOOK_EVERY_S = 1.0
FRESH_S = 0.1
"""What was seen so lately is not looked at anew for each member that begins or ends."""
LEAST_BYTES = 16 << 20
"""A directory with less room is full."""
LEAST_PART = 0.02
"""A directory on a small file system is full when it has less than this part of it."""
WELL_AGAIN = 2
"""A full directory is well again with so many times the room of a full one."""
LOST_BYTES = 64 << 10
"""With less room than that, what is printed may be lost."""


class DirectorySample(msgspec.Struct, frozen=True, kw_only=True):
    """One directory as it was seen."""

    what: str
    """What it is for, for people."""
    path: str
    error: str = ""
    """Why nothing can be written there, in the system's words."""
    free: int = 0
    """Bytes that this user may still write."""
    total: int = 0
    """Bytes of its file system."""
    own: int = 0
    """Bytes there that are the node's, and that it counts and limits by itself: objects."""
    has_logs: bool = False
    """Whether jobs print there."""
    is_out_of_files: bool = False


class DirectoryReading(Protocol):
    """Looks at the directories."""

    def look(self, writes: bool) -> Sequence[DirectorySample]:
        """All of them as they are now. `writes`: see, too, whether a file can be written."""
        ...


class NoDirectories:
    """A node whose directories nobody looks at."""

    def look(self, writes: bool) -> Sequence[DirectorySample]:
        """See DirectoryReading."""
        return ()


class Directories:
    """Those of one node."""

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
        """Drops something old that jobs have printed; False: there is nothing."""
        self._look_at = float("-inf")
        self._full_at = float("-inf")
        """When there was no room for what is printed, the last time."""
        self.trouble = ""
        """Why the node takes nothing new, for people; empty when all is well."""

    def tick(self, now: float) -> None:
        """Time has passed."""
        if now >= self._look_at:
            self.look(writes=bool(self.trouble))

    def seen(self) -> str:
        """The trouble, as it was a moment ago at the earliest."""
        is_fresh = self._clock() < self._look_at - LOOK_EVERY_S + FRESH_S
        return self.trouble if is_fresh and not self.trouble else self.look()

    def look(self, writes: bool = False) -> str:
        """Look now; the trouble. `writes`: something could not be written just now."""
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
        """Whether what was printed since then may be lost."""
        return self._full_at >= begin


def trouble_of(samples: Sequence[DirectorySample], was_in_trouble: bool) -> str:
    """What is wrong with these directories, in one clause; empty where all are well."""
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
