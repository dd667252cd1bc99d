"""Simulated time: what happens next, in one fixed order, and a digest of all that happened."""

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
"""Who does more than so much within so short a time does nothing else any more."""
KEPT_EVENTS = 20_000
"""So many of the last events can be shown when a promise breaks."""

Action = Callable[[], None]


class Event(NamedTuple):
    """Something that happened: at what simulated time (s), to whom, from whom, and what."""

    at: float
    to: str
    by: str
    what: Any


class Kernel:
    """A heap of (time, sequence, action). Equal times happen in the order they were asked for."""

    def __init__(self, seed: str) -> None:
        self.seed = seed
        self.now = 0.0
        self.count = 0
        """Of actions so far."""
        self.story: deque[Event] = deque(maxlen=KEPT_EVENTS)
        self._heap: list[tuple[float, int, Action]] = []
        self._sequence = itertools.count()
        self._window = (0.0, 0)
        """When the present stretch of `STORM_S` began, and the count by then."""
        self._digest = hashlib.blake2b(digest_size=8)

    def rng(self, name: str) -> random.Random:
        """A random source of its own for each part: what one draws never shifts another's luck."""
        return random.Random(f"{self.seed}/{name}")

    def at(self, when: float, action: Action) -> None:
        """Do this then, or next if that has passed."""
        heapq.heappush(self._heap, (max(when, self.now), next(self._sequence), action))

    def after(self, delay_s: float, action: Action) -> None:
        """Do this so much later."""
        self.at(self.now + delay_s, action)

    def run(self, until: float) -> None:
        """Do all that happens up to that time."""
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
        """Remember an event. `body`: the bytes that stand for it in the digest."""
        self.story.append(Event(self.now, to, by, what))
        self._digest.update(f"{self.now!r} {to} {by} ".encode())
        self._digest.update(body)

    def log(self, to: str, text: str) -> None:
        """Remember something that is not a message: a fault, a start, an end."""
        self.note(to, "", text, text.encode())

    def digest(self) -> str:
        """Of everything noted so far, in hex: equal digests mean equal runs."""
        return self._digest.copy().hexdigest()
