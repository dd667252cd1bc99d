"""The reasons why gangs wait, computed only as often as the head can afford."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from phalanx.head.clock import Clock

Found = TypeVar("Found")
T = TypeVar("T")

SHORT_S = 0.05
"""Seconds of computation up to which an answer counts as cheap. A cheap answer is never reused."""
PAUSE = 9.0
"""An answer that took N seconds to compute is reused for PAUSE * N seconds. So the computations
take at most a tenth of the head's time.
"""


UNCHANGED_S = 10.0
"""Seconds for which an expensive answer is reused while nothing has changed. The reuse ends because
some answers change with time alone: usage, and the ends of running work.
"""


class Share:
    """Limits expensive computations to a tenth of the head's time."""

    def __init__(self, clock: Clock, short_s: float = SHORT_S) -> None:
        """Computations that take no longer than `short_s` seconds do not count against the
        limit.
        """
        self._clock = clock
        self._short_s = short_s
        self._until = float("-inf")

    @property
    def is_spent(self) -> bool:
        """Whether the allowed time is used up. Callers then use the last answer."""
        return self._clock.now() < self._until

    @property
    def was_expensive(self) -> bool:
        """Whether the last computation counted against the limit."""
        return self._until > float("-inf")

    def spend(self, work_out: Callable[[], T]) -> T:
        """Return the function's result, and measure how long the function takes."""
        begun = self._clock.now()
        found = work_out()
        done = self._clock.now()
        took = done - begun
        self._until = done + PAUSE * took if took > self._short_s else float("-inf")
        return found


class KeptReasons(Generic[Found]):
    """Why each gang waits: the last answer, and when to compute a new one.

    The last answer is used again while nothing has changed, and while a new computation would
    delay other requests too much.
    """

    def __init__(
        self,
        clock: Clock,
        work_out: Callable[[], Mapping[str, Found]],
        changes: Callable[[], int],
    ) -> None:
        """`changes` returns how many changes there were so far after which the answer may
        differ.
        """
        self._clock = clock
        self._share = Share(clock)
        self._work_out = work_out
        self._changes = changes
        self._seen = 0
        """The number of changes before the last computation."""
        self._unchanged_until = float("-inf")
        self.last: Mapping[str, Found] = {}
        """The last answer, however old it is."""

    def get(self) -> Mapping[str, Found]:
        """Return why each gang waits, by name. If many gangs wait, the answer may be a moment
        old.
        """
        changes = self._changes()
        is_known = changes == self._seen and self._clock.now() < self._unchanged_until
        if not self._share.is_spent and not is_known:
            self._seen, self._unchanged_until = changes, float("-inf")
            self.last = self._share.spend(self._work_out)
            if self._share.was_expensive:
                self._unchanged_until = self._clock.now() + UNCHANGED_S
        return self.last
