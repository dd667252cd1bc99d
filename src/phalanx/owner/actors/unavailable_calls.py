"""Calls whose actor went away under them: for a moment they wait for the news of its death.

Whether an actor that went away comes back is known a little later: its constructor may raise. A
call that may not be sent twice fails either way; that the actor died, and of what, tells its caller
more than that it is unavailable.
"""

from __future__ import annotations

from collections.abc import Callable

from phalanx.owner.actors.client import PendingCall

WAIT_S = 1.0
"""So long, from the next tick on, a call waits for that news, as on Ray."""


class UnavailableCalls:
    """The calls of one process that wait, by their actors."""

    def __init__(self, fail: Callable[[PendingCall, str], None]) -> None:
        """`fail` fails a call: for its actor's death when it is dead, else for the reason given."""
        self._fail = fail
        self._calls: dict[bytes, list[tuple[PendingCall, str]]] = {}
        self._until: dict[bytes, float] = {}

    def __len__(self) -> int:
        """Of how many actors calls wait."""
        return len(self._calls)

    def add(self, call: PendingCall, reason: str) -> None:
        """This call fails for that reason unless its actor turns out to be dead."""
        self._calls.setdefault(call.actor.actor, []).append((call, reason))

    def settle(self, actor: bytes) -> None:
        """The actor is there again, or dead, or was waited for long enough."""
        self._until.pop(actor, None)
        for call, reason in self._calls.pop(actor, ()):
            self._fail(call, reason)

    def tick(self, now: float) -> None:
        """Time has passed."""
        for actor in list(self._calls):
            if self._until.setdefault(actor, now + WAIT_S) <= now:
                self.settle(actor)
