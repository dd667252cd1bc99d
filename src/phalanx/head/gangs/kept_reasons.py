"""The reasons why gangs wait, worked out no more often than the head can afford."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from phalanx.head.clock import Clock

Found = TypeVar("Found")
T = TypeVar("T")

SHORT_S = 0.05
"""The time in seconds up to which an answer counts as cheap: a cheap answer is computed again each
time.
"""
PAUSE = 9.0
"""An answer is used for this many times the seconds that it took, so that all requests together
take a tenth of the head's time.
"""


class Share:
    """Limits answers that take longer than a moment to a tenth of the head's time."""

    def __init__(self, clock: Clock, short_s: float = SHORT_S) -> None:
        """Answers that take no longer than `short_s` seconds are not counted."""
        self._clock = clock
        self._short_s = short_s
        self._until = float("-inf")

    @property
    def is_spent(self) -> bool:
        """Whether callers should use the last answer for now."""
        return self._clock.now() < self._until

    def spend(self, work_out: Callable[[], T]) -> T:
        """Call this function, and measure how long it takes."""
        begun = self._clock.now()
        found = work_out()
        done = self._clock.now()
        took = done - begun
        self._until = done + PAUSE * took if took > self._short_s else float("-inf")
        return found


class KeptReasons(Generic[Found]):
    """Keeps the last answer, and returns it again while a new answer would delay other requests too
    much.
    """

    def __init__(self, clock: Clock, work_out: Callable[[], Mapping[str, Found]]) -> None:
        self._share = Share(clock)
        self._work_out = work_out
        self.last: Mapping[str, Found] = {}
        """The last answer, whatever its age."""

    def get(self) -> Mapping[str, Found]:
        """Return why each gang waits, by name. If many gangs wait, the answer may be a moment
        old.
        """
        if not self._share.is_spent:
            self.last = self._share.spend(self._work_out)
        return self.last
