"""Watches whether the fork server answers, because a stopped fork server neither starts nor ends
anything.

A signal to a command goes through the fork server. If the fork server is stopped, the signal waits
in its socket, and a cancelled job would outlive its grace period. Therefore a fork server that
stays silent after an order is asked for an answer. If no answer comes, the watch sends SIGCONT,
because somebody has most likely stopped the fork server, and notes that it hangs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from phalanx.node.notes import Note

ASK_AFTER_S = 0.5
"""Seconds of silence after an order until the fork server is asked for an answer.

Silence alone means nothing: while a command runs, the fork server has nothing to report.
"""
SILENT_S = 1.0
"""Seconds without an answer after which the fork server gets SIGCONT. While it stays silent, it
gets another SIGCONT after each further such time.
"""


class ForkServerEffects(Protocol):
    """Asks the fork server for an answer, and sends it SIGCONT, on behalf of the watch."""

    def ask(self) -> None:
        """Ask the fork server for an answer. The answer comes after all earlier orders were carried
        out.
        """
        ...

    def rouse(self) -> None:
        """Continue the process of the fork server, in case it is stopped."""
        ...


class ForkWatch:
    """Watches the fork server of one node."""

    def __init__(self, clock: Callable[[], float], effects: ForkServerEffects, note: Note) -> None:
        self._clock = clock
        self._effects = effects
        self._note = note
        self._ask_at: float | None = None
        """The time when the fork server will be asked for an answer; None if no answer is
        needed.
        """
        self._silent_since: float | None = None
        """The time of the oldest question that the fork server has not answered; None if every
        question is answered.
        """
        self._rouse_at = 0.0
        self._has_begun = False
        """Whether the fork server has sent anything yet. It imports many modules before it
        serves.
        """
        self.trouble = ""
        """Why nothing starts or ends on the node, for display; "" while the fork server answers."""

    def ordered(self) -> None:
        """Note that the fork server got an order."""
        if self._ask_at is None and self._silent_since is None:
            self._ask_at = self._clock() + ASK_AFTER_S

    def heard(self) -> None:
        """Note that the fork server has sent something."""
        self._has_begun = True
        self._ask_at = self._silent_since = None
        if self.trouble:
            self.trouble = ""
            self._note("the process that starts others answers again")

    def restarted(self) -> None:
        """Note that another fork server has replaced a killed fork server."""
        self._ask_at = self._silent_since = None
        self._has_begun = False
        self.trouble = ""

    def tick(self, now: float) -> None:
        """Ask a silent fork server for an answer. If none comes, send it SIGCONT repeatedly."""
        if self._ask_at is not None and now >= self._ask_at:
            self._ask_at, self._silent_since = None, now
            self._rouse_at = now + SILENT_S
            self._effects.ask()
        if self._silent_since is None or now < self._rouse_at:
            return
        self._rouse_at = now + SILENT_S
        if self._has_begun and not self.trouble:
            self.trouble = "the process that starts others does not answer: nothing starts or ends"
            self._note(f"{self.trouble}; it is continued, in case somebody has stopped it")
        self._effects.rouse()
