"""When a process asks once more where an actor is: news of actors may be lost on their way."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from phalanx.owner.actors.client import ActorClient

ASK_AGAIN_S = 5.0
"""Who waits for an actor for so long without being connected to it asks again."""


class Reaching:
    """Actors that this process has calls for and is not connected to."""

    def __init__(self, ask: Callable[[bytes], None]) -> None:
        """`ask` has the control store tell where an actor is."""
        self._ask = ask
        self._waiting: frozenset[bytes] = frozenset()
        """Those of the last look."""
        self._look_at = 0.0

    def tick(self, now: float, clients: Mapping[bytes, ActorClient]) -> None:
        """Time has passed: ask for those that were not reached since the last look either."""
        if now < self._look_at:
            return
        self._look_at = now + ASK_AGAIN_S
        cut_off = [c.actor for c in clients.values() if c.pending and c.connection is None]
        for actor in cut_off:
            if actor in self._waiting:
                self._ask(actor)
        self._waiting = frozenset(cut_off)
