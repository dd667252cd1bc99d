"""Records what happens to queues and reservations, as events."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from phalanx.head.events.event_log import EventLog
from phalanx.head.queues.table import QueueRecord
from phalanx.head.reservations.record import ReservationRecord
from phalanx.model.reservations import Reservation
from phalanx.scheduler.cycle.specs import QueueSpec

_NO_QUOTAS = frozenset({"name", "state", "created"})
"""Fields of a queue whose changes are not described: they are no quotas."""


class QueueRecorder:
    """Notes changes of queues, by comparing them with their previous values."""

    def __init__(self, event_log: EventLog) -> None:
        self._event_log = event_log
        self._known: dict[str, QueueSpec] = {}

    def restore(self, records: Iterable[QueueRecord]) -> None:
        """Restore the queues that an earlier head knew, and the queues that always exist."""
        self._known = {one.name: one.spec for one in records}

    def published(self, queue: QueueRecord) -> None:
        """Note that a queue is new, or which of its values have changed."""
        before, self._known[queue.name] = self._known.get(queue.name), queue.spec
        if before is queue.spec:
            return
        if before is None:
            self._event_log.note("queue-made", queue=queue.name, state=queue.state)
            return
        if (before.state or "Open") != queue.state:
            why = queue.history[-1].reason if queue.history else ""
            self._event_log.note("queue-state", queue=queue.name, state=queue.state, why=why)
        if changes := _changes(before, queue.spec):
            self._event_log.note("queue-changed", queue=queue.name, why=changes)

    def forgotten(self, queue: QueueRecord) -> None:
        """Note that a queue was deleted."""
        self._known.pop(queue.name, None)
        self._event_log.note("queue-deleted", queue=queue.name)


class ReservationRecorder:
    """Notes changes of reservations."""

    def __init__(self, event_log: EventLog) -> None:
        self._event_log = event_log
        self._known: dict[str, tuple[Reservation, float | None]] = {}

    def restore(self, records: Iterable[ReservationRecord]) -> None:
        """Restore the reservations that an earlier head knew."""
        self._known = {one.name: (one.spec, one.begun) for one in records}

    def kept(self, name: str, record: ReservationRecord | None) -> None:
        """Note that a reservation is new, was changed, or is gone."""
        spec, begun = self._known.pop(name, (None, None))
        if record is None:
            if begun is not None:
                self._event_log.note("reservation-ended", name=name)
            self._event_log.note("reservation-deleted", name=name)
            return
        self._known[name] = (record.spec, record.begun)
        if spec is None:
            self._event_log.note("reservation-made", name=name)
        elif spec != record.spec:
            self._event_log.note("reservation-changed", name=name)
        if begun is not None and record.begun != begun:
            self._event_log.note("reservation-ended", name=name)
        if record.begun is not None and record.begun != begun:
            self._event_log.note("reservation-began", name=name)


def _changes(before: QueueSpec, now: QueueSpec) -> str:
    """Return in words what has changed, such as "weight 1 to 3"."""
    old, new = msgspec.structs.asdict(before), msgspec.structs.asdict(now)
    said = [
        f"{name} {_words(old[name])} to {_words(new[name])}"
        for name in new
        if name not in _NO_QUOTAS and old[name] != new[name]
    ]
    return ", ".join(said)


def _words(value: object) -> str:
    if value in (None, "", ()):
        return "nothing"
    if isinstance(value, tuple) and all(isinstance(x, tuple) and len(x) == 2 for x in value):
        return " ".join(f"{name}={_amount(what)}" for name, what in value)
    return str(value)


def _amount(what: object) -> str:
    return what if isinstance(what, str) else f"{what:g}"
