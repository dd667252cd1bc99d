"""Calls whose actor was lost during the call: they wait a moment for news of its death.

Whether such an actor comes back is known a little later, since its constructor may raise. A call
that may not be sent twice fails either way, but "the actor died, and of what" tells its caller more
than "the actor is unavailable".
"""

from __future__ import annotations

from collections.abc import Callable

from phalanx.owner.actors.client import PendingCall

WAIT_S = 1.0
"""Seconds, counted from the next tick, for which a call waits for news of its actor; as in Ray."""


class UnavailableCalls:
    """The waiting calls of one process, by actor."""

    def __init__(self, fail: Callable[[PendingCall, str], None]) -> None:
        """`fail` fails a call: with the actor's death if the actor is dead, otherwise with the
        given reason.
        """
        self._fail = fail
        self._calls: dict[bytes, list[tuple[PendingCall, str]]] = {}
        self._until: dict[bytes, float] = {}

    def __len__(self) -> int:
        """Return the number of actors with waiting calls."""
        return len(self._calls)

    def add(self, call: PendingCall, reason: str) -> None:
        """Fail this call for that reason later, unless its actor turns out to be dead."""
        self._calls.setdefault(call.actor.actor, []).append((call, reason))

    def settle(self, actor: bytes) -> None:
        """Fail the waiting calls of an actor, because it is back or dead, or because they have
        waited long enough.
        """
        self._until.pop(actor, None)
        for call, reason in self._calls.pop(actor, ()):
            self._fail(call, reason)

    def tick(self, now: float) -> None:
        """Fail the calls that have waited for news of their actors long enough."""
        for actor in list(self._calls):
            if self._until.setdefault(actor, now + WAIT_S) <= now:
                self.settle(actor)
