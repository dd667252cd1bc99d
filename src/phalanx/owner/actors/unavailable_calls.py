"""Calls whose actor was lost while they ran. They wait a moment for news of the actor's death.

It takes a little time until it is known whether the actor comes back, because its constructor may
raise an error. A call that may not be sent twice fails in any case, but the cause of the actor's
death tells its caller more than "the actor is unavailable".
"""

from __future__ import annotations

from collections.abc import Callable

from phalanx.owner.actors.client import PendingCall

WAIT_S = 1.0
"""Seconds for which a call waits for news of its actor, as in Ray. They are counted from the first
tick after the loss of the actor.
"""


class UnavailableCalls:
    """The waiting calls of one process, by actor."""

    def __init__(self, fail: Callable[[PendingCall, str], None]) -> None:
        """`fail` fails a call: if the actor is dead, with the cause of its death, and otherwise
        with the given reason.
        """
        self._fail = fail
        self._calls: dict[bytes, list[tuple[PendingCall, str]]] = {}
        self._until: dict[bytes, float] = {}

    def __len__(self) -> int:
        """Return the number of actors with waiting calls."""
        return len(self._calls)

    def add(self, call: PendingCall, reason: str) -> None:
        """Fail this call later. The call fails for `reason`, or with the cause of the actor's death
        if the actor is dead by then.
        """
        self._calls.setdefault(call.actor.actor, []).append((call, reason))

    def settle(self, actor: bytes) -> None:
        """Fail the waiting calls of an actor: it has come back or is dead, or the calls have waited
        long enough.
        """
        self._until.pop(actor, None)
        for call, reason in self._calls.pop(actor, ()):
            self._fail(call, reason)

    def tick(self, now: float) -> None:
        """Fail the calls that have waited long enough for news of their actors."""
        for actor in list(self._calls):
            until = self._until.setdefault(actor, now + WAIT_S)
            if now >= until:
                self.settle(actor)
