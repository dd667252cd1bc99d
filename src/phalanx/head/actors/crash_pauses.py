"""Decides how long an actor rests before it restarts after a crash. It restarts immediately after
the first crash, and rests longer after each further one. An actor that crashes immediately would
otherwise restart endlessly, and each start costs a process.
"""

from __future__ import annotations

import msgspec

from phalanx.model.crash_pauses import STEADY_S, pause_s


class _Crashes(msgspec.Struct):
    count: int = 0
    lives_since: float | None = None


class CrashPauses:
    """Counts each actor's consecutive crashes."""

    def __init__(self) -> None:
        self._known: dict[bytes, _Crashes] = {}

    def on_alive(self, actor: bytes, now: float) -> None:
        """Note that the actor's constructor has returned."""
        known = self._known.get(actor)
        if known is not None and known.lives_since is None:
            known.lives_since = now

    def on_crash(self, actor: bytes, now: float) -> float:
        """Count an unexpected end of the actor's process. Returns how many seconds the actor
        rests.
        """
        known = self._known.setdefault(actor, _Crashes())
        if known.lives_since is not None and now - known.lives_since >= STEADY_S:
            known.count = 0
        known.lives_since = None
        known.count += 1
        return pause_s(known.count)

    def count(self, actor: bytes) -> int:
        """Return how many consecutive crashes are counted."""
        known = self._known.get(actor)
        return 0 if known is None else known.count

    def forget(self, actor: bytes) -> None:
        """Forget an actor that is dead for good."""
        self._known.pop(actor, None)
