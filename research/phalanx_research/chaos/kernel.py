"""Simulated time: the next event in one fixed order, and a digest of all events."""

from __future__ import annotations

import hashlib
import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from phalanx_research.chaos.broken import Broken

STORM_S, STORM = 0.1, 20_000
"""Seconds, and the number of actions within them above which processes only keep each other
busy.
"""
KEPT_EVENTS = 20_000
"""The number of last events that can be shown when a promise breaks."""

Action = Callable[[], None]


class Event(NamedTuple):
    """An event: simulated seconds, receiver, sender, and content."""

    at: float
    to: str
    by: str
    what: Any


class Kernel:
    """A heap of (time, sequence, action). Equal times happen in the order of the requests."""

    def __init__(self, seed: str) -> None:
        self.seed = seed
        self.now = 0.0
        self.count = 0
        """The number of actions so far."""
        self.story: deque[Event] = deque(maxlen=KEPT_EVENTS)
        self._heap: list[tuple[float, int, Action]] = []
        self._sequence = itertools.count()
        self._window = (0.0, 0)
        """When the present window of `STORM_S` began, and the count then."""
        self._digest = hashlib.blake2b(digest_size=8)

    def rng(self, name: str) -> random.Random:
        """Return a random source for one part: draws of one part never shift another's."""
        return random.Random(f"{self.seed}/{name}")

    def at(self, when: float, action: Action) -> None:
        """Run an action at this time, or next if the time has passed."""
        heapq.heappush(self._heap, (max(when, self.now), next(self._sequence), action))

    def after(self, delay_s: float, action: Action) -> None:
        """Run an action after this delay."""
        self.at(self.now + delay_s, action)

    def run(self, until: float) -> None:
        """Run everything that happens up to this time."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            self.now, _, action = heapq.heappop(heap)
            self.count += 1
            self._look_for_a_storm()
            action()
        self.now = until

    def _look_for_a_storm(self) -> None:
        since, count = self._window
        if self.now - since > STORM_S:
            self._window = (self.now, self.count)
        elif self.count - count > STORM:
            latest = list(self.story)[-50:]
            busy = sorted({name for event in latest for name in (event.to, event.by) if name})
            raise Broken(
                f"{STORM} things happened within {self.now - since:.3g} s: {', '.join(busy)} keep "
                "each other busy",
                busy,
            )

    def note(self, to: str, by: str, what: Any, body: bytes) -> None:
        """Record an event. `body`: the bytes that stand for it in the digest."""
        self.story.append(Event(self.now, to, by, what))
        self._digest.update(f"{self.now!r} {to} {by} ".encode())
        self._digest.update(body)

    def log(self, to: str, text: str) -> None:
        """Record something that is not a message: a fault, a start, an end."""
        self.note(to, "", text, text.encode())

    def digest(self) -> str:
        """Return the digest of everything noted so far, in hex: equal digests mean equal runs."""
        return self._digest.copy().hexdigest()
