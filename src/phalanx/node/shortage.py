"""Whether a node has run out of processes, memory or descriptors: commands cannot be started then.

Nobody can see beforehand whether there are enough of them again. So the node takes nothing new for
a while, which grows while commands fail in a row, and then tries again.
"""

from __future__ import annotations

from collections.abc import Callable

from phalanx.model.crash_pauses import pause_s
from phalanx.node.notes import Note

FIRST_REST_S = 1.0
LONGEST_REST_S = 60.0


class Shortage:
    """That of one node."""

    def __init__(self, clock: Callable[[], float], note: Note) -> None:
        self._clock = clock
        self._note = note
        self._failures = 0
        """How many rests have followed one another, with no command that began between them."""
        self._until = 0.0
        self.trouble = ""
        """Why the node takes nothing new, for people; empty when all is well."""

    def failed(self, reason: str) -> str:
        """A command could not be started for want of something; the trouble."""
        if not self.trouble:  # what was ordered before the rest fails together, and counts once
            self._failures += 1
            rest_s = pause_s(self._failures + 1, FIRST_REST_S, LONGEST_REST_S)
            self._until = self._clock() + rest_s
            self.trouble = f"commands cannot be started ({reason})"
            self._note(f"{self.trouble}: nothing new is begun for {rest_s:g} s")
        return self.trouble

    def began(self) -> None:
        """A command has begun."""
        if not self.trouble:
            self._failures = 0

    def tick(self, now: float) -> None:
        """Time has passed."""
        if self.trouble and now >= self._until:
            self.trouble = ""
