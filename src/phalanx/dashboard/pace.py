"""How long to wait between questions, so that they take a small part of the head's time. Pure."""

from __future__ import annotations

from collections import deque

SHARE = 50.0
MOST_S = 60.0
REMEMBERED = 5


class Pace:
    """Waits fifty times as long as an answer takes: the shortest of the last few. A longer one has
    waited for other work on one of the machines or between them, and would have open pages stand
    still for up to a minute."""

    def __init__(self) -> None:
        self._took: deque[float] = deque(maxlen=REMEMBERED)

    def heard(self, took_s: float) -> None:
        """An answer took so long."""
        self._took.append(took_s)

    @property
    def pause_s(self) -> float:
        """How long to wait from the last answer on, at least."""
        return min(min(self._took, default=0.0) * SHARE, MOST_S)
