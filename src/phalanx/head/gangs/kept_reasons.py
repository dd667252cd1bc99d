"""Why things wait, worked out no oftener than the head can afford."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from phalanx.head.clock import Clock

Found = TypeVar("Found")
T = TypeVar("T")

SHORT_S = 0.05
"""An answer that took no longer is worked out anew each time."""
PAUSE = 9.0
"""So many times what it took an answer is good for: all who ask take a tenth of the head's time."""


class Share:
    """A tenth of the head's time, for answers that take longer than a moment."""

    def __init__(self, clock: Clock, short_s: float = SHORT_S) -> None:
        """What takes no longer than `short_s` is not counted."""
        self._clock = clock
        self._short_s = short_s
        self._until = float("-inf")

    @property
    def is_spent(self) -> bool:
        """Whether to do with what is known, for now."""
        return self._clock.now() < self._until

    def spend(self, work_out: Callable[[], T]) -> T:
        """Work something out, whatever it takes."""
        begun = self._clock.now()
        found = work_out()
        done = self._clock.now()
        took = done - begun
        self._until = done + PAUSE * took if took > self._short_s else float("-inf")
        return found


class KeptReasons(Generic[Found]):
    """The last answer, while another one would cost others too much."""

    def __init__(self, clock: Clock, work_out: Callable[[], Mapping[str, Found]]) -> None:
        self._share = Share(clock)
        self._work_out = work_out
        self.last: Mapping[str, Found] = {}
        """The last answer, however old."""

    def get(self) -> Mapping[str, Found]:
        """Why all waits, by name, as it was a moment ago where there is much of it."""
        if not self._share.is_spent:
            self.last = self._share.spend(self._work_out)
        return self.last
