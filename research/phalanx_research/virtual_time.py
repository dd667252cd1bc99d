"""Virtual time, which jumps from one event to the next."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

Action = Callable[[], None]


class VirtualTime:
    """A heap of (time, sequence, action). Actions at the same time run in the order in which they
    were added.
    """

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self.count = 0
        """The number of actions run so far."""
        self._heap: list[tuple[float, int, Action]] = []
        self._sequence = itertools.count()

    def at(self, when: float, action: Action) -> None:
        """Run an action at this time. If the time has passed, run the action next."""
        heapq.heappush(self._heap, (max(when, self.now), next(self._sequence), action))

    def after(self, delay_s: float, action: Action) -> None:
        """Run an action after this delay."""
        self.at(self.now + delay_s, action)

    def run(self, until: float) -> None:
        """Run all actions up to this time."""
        while self._heap and self._heap[0][0] <= until:
            self.step()
        self.now = until

    def step(self) -> None:
        """Run the next action. Raises IndexError if there is none."""
        self.now, _, action = heapq.heappop(self._heap)
        self.count += 1
        self._look()
        action()

    def _look(self) -> None:
        """Check the simulation before each action. Does nothing here."""


class VirtualClock:
    """A head's clock that shows virtual time."""

    def __init__(self, time: VirtualTime, epoch: float = 0.0) -> None:
        """`epoch` is the wall-clock time in seconds at which the simulation begins."""
        self._time = time
        self._epoch = epoch

    def now(self) -> float:
        """Return the seconds of the simulation."""
        return self._time.now

    monotonic = now  # nothing pauses a simulation

    def wall(self) -> float:
        """Return the simulated wall-clock time, in seconds since the epoch."""
        return self._epoch + self._time.now
