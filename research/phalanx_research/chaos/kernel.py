"""Simulated time: runs events in a fixed order, and keeps a digest of all events."""

from __future__ import annotations

import hashlib
import random
from collections import deque
from typing import Any, NamedTuple

from phalanx_research.chaos.broken import Broken
from phalanx_research.virtual_time import VirtualTime

STORM_S, STORM = 0.1, 20_000
"""More than STORM actions within STORM_S seconds mean that processes only keep each other busy."""
KEPT_EVENTS = 20_000
"""The number of last events that are kept for the report of a broken invariant."""


class Event(NamedTuple):
    """An event: its time in simulated seconds, its receiver, its sender, and its content."""

    at: float
    to: str
    by: str
    what: Any


class Kernel(VirtualTime):
    """Virtual time that keeps its last events, and notices when processes only keep each other
    busy.
    """

    def __init__(self, seed: str) -> None:
        super().__init__()
        self.seed = seed
        self.story: deque[Event] = deque(maxlen=KEPT_EVENTS)
        self._window = (0.0, 0)
        """The start of the present window of `STORM_S` seconds, and the number of actions until
        then.
        """
        self._digest = hashlib.blake2b(digest_size=8)

    def rng(self, name: str) -> random.Random:
        """Return a separate random generator for one part, so that the draws of parts do not affect
        each other.
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
        """Record an event. `body` has the event's bytes for the digest."""
        self.story.append(Event(self.now, to, by, what))
        self._digest.update(f"{self.now!r} {to} {by} ".encode())
        self._digest.update(body)

    def log(self, to: str, text: str) -> None:
        """Record an event that is not a message, such as a fault, a start or an end."""
        self.note(to, "", text, text.encode())

    def digest(self) -> str:
        """Return the digest, in hex, of everything recorded so far. Equal digests mean equal
        runs.
        """
        return self._digest.copy().hexdigest()
