"""How long an actor rests before it starts again: not at all the first time, then ever longer.

An actor that crashes as soon as it lives would start without end, and each start costs a process.
"""

from __future__ import annotations

import msgspec

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
STEADY_S = 10.0
"""An actor that has lived for so long is well: its next crash counts as the first."""
_MOST_DOUBLINGS = 16


class _Crashes(msgspec.Struct):
    count: int = 0
    lives_since: float | None = None


class CrashPauses:
    """Counts the crashes of each actor that follow one another."""

    def __init__(self) -> None:
        self._known: dict[bytes, _Crashes] = {}

    def lives(self, actor: bytes, now: float) -> None:
        """Its constructor has returned."""
        known = self._known.get(actor)
        if known is not None and known.lives_since is None:
            known.lives_since = now

    def crashed(self, actor: bytes, now: float) -> float:
        """Its process has ended by itself; how many seconds it rests."""
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
        """How many crashes have followed one another."""
        known = self._known.get(actor)
        return 0 if known is None else known.count

    def gone(self, actor: bytes) -> None:
        """It is dead for good."""
        self._known.pop(actor, None)
