"""The pause between questions to the head. The pause limits the part of the head's time that the
page costs.
"""

from __future__ import annotations

from collections import deque

NEWS_SHARE = 100.0
"""The pause before the next question for changes, as a multiple of the time that an answer took. So
these questions take at most a hundredth of the head's time.
"""
SHARE = 200.0
"""The pause before the next question of one of two expensive kinds, as a multiple of the time that
an answer took. The first kind is the question why jobs wait; the second kind is all other
questions, except those for changes. Each kind takes at most a two-hundredth of the head's time.
"""
MOST_S = 120.0
"""The longest pause in seconds."""
REMEMBERED = 5
"""The number of last answers among which the fastest is chosen."""


class Pace:
    """The pause between questions for changes: 100 times the fastest of the last five response
    times.

    A slower answer has waited for other work of the head. A pause based on a slow answer would
    freeze open pages for up to two minutes.
    """

    def __init__(self) -> None:
        self._took: deque[float] = deque(maxlen=REMEMBERED)

    def heard(self, took_s: float) -> None:
        """Note that an answer took `took_s` seconds."""
        self._took.append(took_s)

    @property
    def pause_s(self) -> float:
        """The pause after the last answer, in seconds."""
        return min(min(self._took, default=0.0) * NEWS_SHARE, MOST_S)
