"""Simulated time: the next event in one fixed order, and a digest of all events."""

from __future__ import annotations

import hashlib
import random
from collections import deque
from typing import Any, NamedTuple

from phalanx_research.chaos.broken import Broken
from phalanx_research.virtual_time import VirtualTime

STORM_S, STORM = 0.1, 20_000
"""A number of seconds, and the number of actions in this time above which processes only keep each
other busy.
"""
KEPT_EVENTS = 20_000
"""The number of last events that can be shown when a promise is broken."""


class Event(NamedTuple):
    """An event: simulated seconds, receiver, sender, and content."""

    at: float
    to: str
    by: str
    what: Any


class Kernel(VirtualTime):
    """Virtual time that keeps its events, and that notices when processes only keep each other
    busy.
    """

    def __init__(self, seed: str) -> None:
        super().__init__()
        self.seed = seed
        self.story: deque[Event] = deque(maxlen=KEPT_EVENTS)
        self._window = (0.0, 0)
        """The time at which the present window of `STORM_S` seconds began, and the count of actions
        at that time.
        """
        self._digest = hashlib.blake2b(digest_size=8)

    def rng(self, name: str) -> random.Random:
        """Return a random source for one part, so that draws of one part never change another
        part's.
        """
        return random.Random(f"{self.seed}/{name}")

    def _look(self) -> None:
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
        """Record an event. `body` has the bytes that stand for the event in the digest."""
        self.story.append(Event(self.now, to, by, what))
        self._digest.update(f"{self.now!r} {to} {by} ".encode())
        self._digest.update(body)

    def log(self, to: str, text: str) -> None:
        """Record an event that is not a message: a fault, a start, an end."""
        self.note(to, "", text, text.encode())

    def digest(self) -> str:
        """Return the digest, in hex, of everything recorded so far. Equal digests mean equal
        runs.
        """
        return self._digest.copy().hexdigest()
