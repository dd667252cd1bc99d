"""Decides whether a node takes new work after processes, memory or file descriptors have run out.

In a shortage, commands cannot be started, and only another attempt shows whether the shortage is
over. So the node takes no new work for a while, and then tries again. Each pause is longer than the
one before it, until a command starts.
"""

from __future__ import annotations

from collections.abc import Callable

from phalanx.model.crash_pauses import pause_s
from phalanx.node.notes import Note

FIRST_REST_S = 1.0
LONGEST_REST_S = 60.0


class Shortage:
    """Pauses the start of commands on a node after a start failed because something had run out."""

    def __init__(self, clock: Callable[[], float], note: Note) -> None:
        self._clock = clock
        self._note = note
        self._failures = 0
        """The number of pauses since a command last began."""
        self._until = 0.0
        self.trouble = ""
        """Why the node accepts no new work, for display; "" if it accepts work."""

    def failed(self, reason: str) -> str:
        """Note that a command could not be started because something had run out. Returns a clause
        that says so, for display.
        """
        # All commands that were ordered before the pause fail together, and count as one failure.
        if not self.trouble:
            self._failures += 1
            rest_s = pause_s(self._failures + 1, FIRST_REST_S, LONGEST_REST_S)
            self._until = self._clock() + rest_s
            self.trouble = f"commands cannot be started ({reason})"
            self._note(f"{self.trouble}: nothing new is begun for {rest_s:g} s")
        return self.trouble

    def began(self) -> None:
        """Note that a command has begun."""
        if not self.trouble:
            self._failures = 0

    def tick(self, now: float) -> None:
        """End the pause when its time is over."""
        if self.trouble and now >= self._until:
            self.trouble = ""
