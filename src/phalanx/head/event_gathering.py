"""Gathers what all nodes recorded, for one who asks."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from phalanx.head.clock import Clock
from phalanx.head.outbox import Outbox
from phalanx.observe.cluster_events import Event, EventRing
from phalanx.protocol.cluster_messages import EventsReported, GatherEvents
from phalanx.protocol.requests.request import Asker

_PATIENCE_S = 5.0
"""A node that has not answered by then is left out."""


@dataclass
class _Round:
    asker: Asker[list[dict[str, Any]]]
    waits_for: set[bytes]
    rows: list[dict[str, Any]]
    until: float


class EventGathering:
    """What the control store recorded itself, and rounds of asking that are under way."""

    def __init__(self, outbox: Outbox, clock: Clock) -> None:
        self._outbox = outbox
        self._clock = clock
        self._own = EventRing()
        self._of_gangs = EventRing()  # of their own: there are many, and they crowd out no others
        self._numbers = itertools.count(1)
        self._rounds: dict[int, _Round] = {}

    def record(self, event: Event) -> None:
        """Something happened to a node."""
        self._own.record(event)

    def record_gang(self, event: Event) -> None:
        """Something happened to members of a gang."""
        self._of_gangs.record(event)

    def gather(self, asker: Asker[list[dict[str, Any]]]) -> None:
        """Ask all nodes, and reply once all have said what they know."""
        number = next(self._numbers)
        until = self._clock.now() + _PATIENCE_S
        rows = self._of_gangs.rows() + self._own.rows()
        self._rounds[number] = _Round(asker, set(self._outbox.connected), rows, until)
        self._outbox.broadcast(GatherEvents(number))
        self._look(number)

    def reported(self, prefix: bytes, message: EventsReported) -> None:
        """A node has answered."""
        found = self._rounds.get(message.number)
        if found is not None and prefix in found.waits_for:
            found.waits_for.discard(prefix)
            found.rows += message.rows
            self._look(message.number)

    def node_gone(self, prefix: bytes) -> None:
        """A node will not answer."""
        for number, found in list(self._rounds.items()):
            found.waits_for.discard(prefix)
            self._look(number)

    def tick(self, now: float) -> None:
        """Time has passed."""
        for number, found in list(self._rounds.items()):
            if now > found.until:
                found.waits_for.clear()
                self._look(number)

    def _look(self, number: int) -> None:
        found = self._rounds[number]
        if not found.waits_for:
            del self._rounds[number]
            found.asker.reply(sorted(found.rows, key=lambda row: float(row["at"])))
