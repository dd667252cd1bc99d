"""The pause between questions to the head, which keeps the head's cost low. Pure."""

from __future__ import annotations

from collections import deque

SHARE = 50.0
"""The pause before the next question, as a multiple of the time that an answer took."""
MOST_S = 60.0
"""The longest pause in seconds."""
REMEMBERED = 5
"""The number of last answers among which the fastest is chosen."""


class Pace:
    """The pause between questions: 50 times the fastest of the last five response times.

    A slower answer has waited for other work of the head. A pause based on a slow answer would
    freeze open pages for up to a minute.
    """

    def __init__(self) -> None:
        self._took: deque[float] = deque(maxlen=REMEMBERED)

    def heard(self, took_s: float) -> None:
        """Note that an answer took `took_s` seconds."""
        self._took.append(took_s)

    @property
    def pause_s(self) -> float:
        """The pause after the last answer, in seconds."""
        return min(min(self._took, default=0.0) * SHARE, MOST_S)
