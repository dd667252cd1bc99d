"""Gathers the events that all nodes have recorded, and returns them to one client."""

from __future__ import annotations

import itertools
from typing import Any

from phalanx.head.clock import Clock
from phalanx.head.outbox import Outbox
from phalanx.observe.cluster_events import Event, EventRing
from phalanx.observe.state.gathering import Gathering
from phalanx.protocol.report_messages import EventsReported, GatherEvents
from phalanx.protocol.requests.cluster import ListClusterEvents
from phalanx.protocol.requests.request import LATER, Asker, Entry, Later

_PATIENCE_S = 5.0
"""Seconds after which a listing of events does not wait for the remaining nodes."""
Rows = list[dict[str, Any]]


class EventGathering:
    """The events that the head recorded itself, and the unfinished listings of the events of all
    nodes.
    """

    def __init__(self, outbox: Outbox, clock: Clock) -> None:
        self._outbox = outbox
        self._clock = clock
        self._own = EventRing()
        self._of_gangs = (
            EventRing()
            # These events have a ring of their own: they are many, and would displace other events.
        )
        self._rounds: Gathering[Rows] = Gathering()

    def entries(self) -> list[Entry]:
        """Return the requests that this object answers, each with its handler."""
        return [ListClusterEvents.handled_by(self._gather)]

    def record(self, event: Event) -> None:
        """Record an event of a node."""
        self._own.record(event)

    def record_gang(self, event: Event) -> None:
        """Record an event of members of a gang."""
        self._of_gangs.record(event)

    def _gather(self, asker: Asker[Rows], request: ListClusterEvents) -> Later:
        """Ask all nodes for their events, and reply once all nodes have answered."""

        def finish(answers: dict[bytes, Rows], silent: list[bytes]) -> None:
            of_nodes = [(float(row["at"]), row) for rows in answers.values() for row in rows]
            found = sorted(own + of_nodes, key=lambda timed: timed[0])
            asker.reply([row for _, row in found])

        own = _in_order(self._of_gangs.rows()) + _in_order(self._own.rows())
        self._rounds.begin(
            self._outbox.connected,
            self._clock.now() + _PATIENCE_S,
            lambda number: self._outbox.broadcast(GatherEvents(number)),
            finish,
        )
        return LATER

    def reported(self, prefix: bytes, message: EventsReported) -> None:
        """Add a node's answer."""
        self._rounds.answered(prefix, message.number, message.rows)

    def node_gone(self, prefix: bytes) -> None:
        """Stop waiting for a node that will not answer."""
        self._rounds.on_process_end(prefix)

    def tick(self, now: float) -> None:
        """Finish the listings whose time is up."""
        self._rounds.tick(now)


def _in_order(rows: Rows) -> list[tuple[float, dict[str, Any]]]:
    """Return these rows in the order in which the head recorded them, with times that never
    decrease. The wall clock may have been set back between two rows.
    """
    times = itertools.accumulate((float(row["at"]) for row in rows), max)
    return list(zip(times, rows, strict=True))
