"""Whether the fork server answers: one that is stopped starts nothing, and ends nothing either.

A signal that the node has it send waits in its socket meanwhile: who cancels a job waits beyond the
job's grace. So a fork server that is silent although it was ordered something is asked, then
continued, as somebody has stopped it most likely; and people can read that it hangs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from phalanx.node.notes import Note

ASK_AFTER_S = 0.5
"""An order that nothing was heard after for so long has the fork server asked whether it is there:
a command says nothing while it runs."""
SILENT_S = 1.0
"""A fork server that has not answered for so long is continued, again and again."""


class ForkServerEffects(Protocol):
    """What the watch asks of its shell."""

    def ask(self) -> None:
        """Have the fork server answer, after all that it was ordered before."""
        ...

    def rouse(self) -> None:
        """Have its process go on, if it is stopped."""
        ...


class ForkWatch:
    """One node's."""

    def __init__(self, clock: Callable[[], float], effects: ForkServerEffects, note: Note) -> None:
        self._clock = clock
        self._effects = effects
        self._note = note
        self._ask_at: float | None = None
        """None while nothing is awaited of it."""
        self._silent_since: float | None = None
        """When it was asked what it has not answered yet."""
        self._rouse_at = 0.0
        self._has_begun = False
        """Whether it has said anything yet: it imports much before it serves."""
        self.trouble = ""
        """Why nothing starts or ends here, for people; empty while it answers."""

    def ordered(self) -> None:
        """The fork server was ordered something."""
        if self._ask_at is None and self._silent_since is None:
            self._ask_at = self._clock() + ASK_AFTER_S

    def heard(self) -> None:
        """It has said something."""
        self._has_begun = True
        self._ask_at = self._silent_since = None
        if self.trouble:
            self.trouble = ""
            self._note("the process that starts others answers again")

    def tick(self, now: float) -> None:
        """Time has passed."""
        if self._ask_at is not None and now >= self._ask_at:
            self._ask_at, self._silent_since = None, now
            self._rouse_at = now + SILENT_S
            self._effects.ask()
        if self._silent_since is None or now < self._rouse_at:
            return
        self._rouse_at = now + SILENT_S
        if self._has_begun and not self.trouble:
            self.trouble = "the process that starts others does not answer: nothing starts or ends"
            self._note(f"{self.trouble}; it is continued, in case that somebody has stopped it")
        self._effects.rouse()
