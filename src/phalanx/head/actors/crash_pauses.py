"""Decides how long an actor rests before it restarts: not at all after the first crash, then ever
longer.

An actor that crashes as soon as it lives would otherwise restart without end, and each start costs
a process.
"""

from __future__ import annotations

import msgspec

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
STEADY_S = 10.0
"""Seconds of life after which an actor counts as healthy: its next crash counts as the first."""
_MOST_DOUBLINGS = 16


class _Crashes(msgspec.Struct):
    count: int = 0
    lives_since: float | None = None


class CrashPauses:
    """Counts each actor's consecutive crashes."""

    def __init__(self) -> None:
        self._known: dict[bytes, _Crashes] = {}

    def lives(self, actor: bytes, now: float) -> None:
        """Note that the actor's constructor has returned."""
        known = self._known.get(actor)
        if known is not None and known.lives_since is None:
            known.lives_since = now

    def crashed(self, actor: bytes, now: float) -> float:
        """Count an unexpected end of the actor's process; return how many seconds the actor
        rests.
        """
        known = self._known.setdefault(actor, _Crashes())
        if known.lives_since is not None and now - known.lives_since >= STEADY_S:
            known.count = 0
        doublings, known.lives_since = known.count - 1, None
        known.count += 1
        if doublings < 0:
            return 0.0
        pause_s: float = min(
            FIRST_PAUSE_S * 2.0 ** min(doublings, _MOST_DOUBLINGS), LONGEST_PAUSE_S
        )
        return pause_s

    def count(self, actor: bytes) -> int:
        """Return how many consecutive crashes are counted."""
        known = self._known.get(actor)
        return 0 if known is None else known.count

    def gone(self, actor: bytes) -> None:
        """Forget an actor that is dead for good."""
        self._known.pop(actor, None)
