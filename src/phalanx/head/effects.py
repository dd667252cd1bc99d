"""The effects that all machines of the head share: messages, stored rows, time, events and
metrics.
"""

from __future__ import annotations

from dataclasses import dataclass

from phalanx.head.clock import WatchedClock
from phalanx.head.events.event_log import EventLog
from phalanx.head.internal_errors import InternalErrors
from phalanx.head.outbox import Outbox
from phalanx.head.state_store import StateStore
from phalanx.observe.metrics.meter import Meter


@dataclass(frozen=True, kw_only=True)
class HeadEffects:
    """The effects that the machines of one head share."""

    outbox: Outbox
    """Sends messages to nodes and processes."""
    state_store: StateStore
    """Keeps rows that must outlive the head's process."""
    clock: WatchedClock
    meter: Meter
    """Counts occurrences for metrics."""
    event_log: EventLog
    """Records events that people read."""
    internal_errors: InternalErrors
    """Catches an internal error that concerns one thing, so that all others continue."""
