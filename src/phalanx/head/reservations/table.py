"""The life cycle of reservations, which are created, changed, begun, ended and deleted.

This module is pure: `now` is the wall-clock time. The table requests all other consequences through
`ReservationEffects`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Protocol

from phalanx.errors import JobCommandError
from phalanx.head.reservations.booking import Book
from phalanx.head.reservations.record import (
    ReservationRecord,
    Window,
    spec_of,
    window_now,
    windows,
)
from phalanx.manifests.cron import moment_text, parse_schedule, zone_of
from phalanx.manifests.names import shown
from phalanx.model.ids import NodeID
from phalanx.model.jobs.records import moved
from phalanx.model.nearest import nearest
from phalanx.model.readable import length_text
from phalanx.model.reservations import MAX_RESERVATIONS, Reservation
from phalanx.scheduler.cycle.specs import ReservationSpec

_HEX = frozenset("0123456789abcdef")
SLACK_S = 60.0
"""A start that is at most this number of seconds in the past counts as now."""


class ReservationEffects(Protocol):
    """Requests that the reservations make to their shell."""

    def keep(self, name: str, record: ReservationRecord | None) -> None:
        """Store a new or changed reservation; None deletes the stored one."""
        ...

    def changed(self) -> None:
        """Report that more jobs may start than before, or that end times of jobs have changed."""
        ...

    def drain_node(self, node_id: str, reason: str) -> bool:
        """Drain a node. Returns False if the node is already draining, or does not exist."""
        ...

    def end_drain(self, node_id: str) -> None:
        """Let a node take work again that was drained for a reservation."""
        ...


class ReservationTable:
    """All reservations, by name."""

    def __init__(self, effects: ReservationEffects) -> None:
        self._effects = effects
        self._records: dict[str, ReservationRecord] = {}
        self._specs: tuple[ReservationSpec, ...] | None = None
        self._made_at = self._valid_until = 0.0
        """The time when `_specs` was computed, and the time until which it is valid."""

    def get(self, name: str) -> ReservationRecord | None:
        """Return the reservation with this name."""
        return self._records.get(name)

    def all(self) -> list[ReservationRecord]:
        """Return every reservation, by name."""
        return [self._records[name] for name in sorted(self._records)]

    def need(self, name: str) -> ReservationRecord:
        """Return the reservation with this name. Raises JobCommandError for an unknown name."""
        record = self._records.get(name)
        if record is None:
            raise JobCommandError(
                f"there is no reservation {shown(name)}{nearest(name, self._records)}"
            )
        return record

    def restore(self, records: Iterable[ReservationRecord]) -> None:
        """Restore stored reservations."""
        for record in records:
            self._records[record.name] = record
        self._specs = None

    def specs(self, now: float) -> tuple[ReservationSpec, ...]:
        """Return the reservations in the form that cycles read. The same object is returned while
        nothing changes.
        """
        if self._specs is None or not self._made_at <= now < self._valid_until:
            self._specs = tuple(spec_of(record, now) for record in self.all())
            times = (t for spec in self._specs for w in spec.windows for t in w if t is not None)
            self._made_at = now
            self._valid_until = min((time for time in times if time > now), default=math.inf)
        return self._specs

    # ---- commands ----------------------------------------------------------------------------

    def put(self, spec: Reservation, book: Book, now: float) -> str:
        """Create a reservation, or change the reservation with this name. Returns what was done.
        `book`: the nodes, running work and other reservations. Raises JobCommandError if the
        reservation can never be kept.
        """
        known = self._records.get(spec.name)
        if known is None and len(self._records) >= MAX_RESERVATIONS:
            raise JobCommandError(f"there are {MAX_RESERVATIONS} reservations already, the maximum")
        if spec.schedule:
            made = self._recurring(spec, now)
        else:
            made = self._once(spec, book, now, known)
        if known is not None:
            made.created = known.created
            made.last, made.drained = known.last, known.drained
            if known.begun is not None and _is_same_time(known.spec, spec):
                made.begun = known.begun
        made.places = book.places(spec, windows(made, now), known.places if known else {})
        self._records[spec.name] = made
        self._published(made)
        self._begin(made, now)
        if known is not None:
            self._drain(made)
        return "created" if known is None else "updated"

    def _recurring(self, spec: Reservation, now: float) -> ReservationRecord:
        name = f"reservation {spec.name}"
        schedule = parse_schedule(spec.schedule)
        zone_of(spec.time_zone)
        if schedule.every_s:
            raise JobCommandError(
                f"{name}: schedule={spec.schedule}: name times of day, not @every"
            )
        length_s = spec.length_s
        if length_s is None:
            raise JobCommandError(f"{name}: schedule={spec.schedule}: it needs a length")
        record = ReservationRecord(spec=spec, created=now, start=now, length_s=length_s)
        first = schedule.after(now, spec.time_zone)
        second = None if first is None else schedule.after(first, spec.time_zone)
        if first is None:
            raise JobCommandError(f"{name}: schedule={spec.schedule}: this time never comes")
        if second is not None and length_s > second - first:
            raise JobCommandError(
                f"{name}: length={length_text(length_s)}: it would begin again before it ends, "
                f"because it recurs after {length_text(second - first)}, the longest length"
            )
        return record

    def _once(
        self, spec: Reservation, book: Book, now: float, known: ReservationRecord | None
    ) -> ReservationRecord:
        name = f"reservation {spec.name}"
        start = now if spec.start is None else spec.start.since(now)
        if known is not None and known.spec.start == spec.start and not known.spec.schedule:
            start = known.start
        elif start < now - SLACK_S:
            raise JobCommandError(
                f"{name}: start={moment_text(start)}: that is in the past; choose a time from "
                f"{moment_text(now)} on"
            )
        else:
            start = max(start, now)
        length_s = spec.length_s
        if spec.end is not None:
            length_s = spec.end.since(now) - start
            if length_s <= 0:
                raise JobCommandError(
                    f"{name}: end={moment_text(start + length_s)}: it would end before it begins; "
                    f"choose a time after {moment_text(start)}"
                )
        has_begun = known is not None and known.begun is not None and start == known.start
        if length_s is not None and start + length_s <= now and not has_begun:
            raise JobCommandError(
                f"{name}: length={length_text(length_s)}: it would be over at "
                f"{moment_text(start + length_s)}, which is in the past"
            )
        if spec.latest is not None and (known is None or known.begun is None):
            latest = spec.latest.since(now)
            if latest < start:
                raise JobCommandError(
                    f"{name}: latest={moment_text(latest)}: that is before its start, "
                    f"{moment_text(start)}"
                )
            start = book.begin(spec, start, latest, length_s)
        return ReservationRecord(spec=spec, created=now, start=start, length_s=length_s)

    def delete(self, name: str) -> None:
        """Delete a reservation, and open its nodes again. Raises JobCommandError if it does not
        exist.
        """
        record = self.need(name)
        self._over(record)

    # ---- time --------------------------------------------------------------------------------

    def clock_stepped(self, step_s: float) -> None:
        """Shift the recorded times after the clock was stepped by this many seconds. Reservations
        that have begun keep their length. A reservation that begins a given time after its creation
        keeps that wait. A reservation that begins at a date still begins at that date.
        """
        for record in self.all():
            record.created += step_s
            start = record.spec.start
            is_dated = start is not None and start.at is not None
            if not record.spec.schedule and (record.begun is not None or not is_dated):
                record.start += step_s
                record.begun = moved(record.begun, step_s)
            self._published(record)

    def tick(self, now: float) -> None:
        """Begin and end reservations that are due."""
        for record in self.all():
            self._look(record, now)

    def nodes_changed(self, book_for: Callable[[str], Book], now: float) -> None:
        """Choose places again after nodes came or left. If a reservation names nodes, they are
        looked up again; otherwise lost nodes are replaced. `book_for` returns the book for the
        reservation with this name.
        """
        for record in self.all():
            book = book_for(record.name)
            try:
                places = book.again(record.spec, windows(record, now), record.places)
            except JobCommandError:
                places = {}  # no node is left that could hold a part of the reservation
            if not places and _names_only_ids(record.spec):
                self._over(record)
                continue
            if places != record.places:
                record.places = places
                self._published(record)
            self._drain(record)

    def _look(self, record: ReservationRecord, now: float) -> None:
        window = window_now(record, now)
        if window is not None and _is_over(window, now):
            record.last, record.begun = record.begun, None
            self._open(record)
            if not record.spec.schedule:
                self._over(record)
                return
            self._published(record)
        if not windows(record, now):
            self._over(record)
        else:
            self._begin(record, now)

    def _begin(self, record: ReservationRecord, now: float) -> None:
        coming = windows(record, now)
        if record.begun is None and coming and coming[0][0] <= now:
            record.begun = coming[0][0]
            self._published(record)
            self._drain(record)

    def _over(self, record: ReservationRecord) -> None:
        del self._records[record.name]
        self._open(record)
        self._specs = None
        self._effects.keep(record.name, None)
        self._effects.changed()

    def _published(self, record: ReservationRecord) -> None:
        self._specs = None
        self._effects.keep(record.name, record)
        self._effects.changed()

    # ---- draining nodes ----------------------------------------------------------------------

    def _drain(self, record: ReservationRecord) -> None:
        """Drain the nodes of a maintenance that has begun. Reopen nodes that the maintenance no
        longer needs.
        """
        if not record.spec.maintenance or record.begun is None:
            return
        reason = f"reservation {record.name}"
        closed = [n for n in record.places if self._effects.drain_node(n, reason)]
        stray = [node for node in record.drained if node not in record.places]
        if closed or stray:
            record.drained = [n for n in record.drained if n in record.places] + closed
            self._effects.keep(record.name, record)
        self._end_drains(stray)

    def _open(self, record: ReservationRecord) -> None:
        drained, record.drained = record.drained, []
        self._end_drains(drained)

    def _end_drains(self, nodes: Iterable[str]) -> None:
        """Let these nodes take work again, unless another maintenance keeps them closed."""
        for node in nodes:
            heir = next(
                (r for r in self.all() if r.begun is not None and self._closes(r, node)), None
            )
            if heir is None:
                self._effects.end_drain(node)
            else:
                heir.drained.append(node)
                self._effects.keep(heir.name, heir)

    def _closes(self, record: ReservationRecord, node: str) -> bool:
        is_known = self._records.get(record.name) is record
        return is_known and record.spec.maintenance and node in record.places


def _names_only_ids(spec: Reservation) -> bool:
    """Whether a maintenance names its nodes only by their ids. Once these nodes are gone, the
    maintenance can be dropped, because a node never comes back with an old id. (The node may come
    back with the same host name.)
    """
    return spec.maintenance and bool(spec.nodes) and all(map(_is_id, spec.nodes))


def _is_id(word: str) -> bool:
    return len(word) == 2 * NodeID.size() and set(word) <= _HEX


def _is_over(window: Window, now: float) -> bool:
    return window[1] is not None and now >= window[1]


def _is_same_time(one: Reservation, other: Reservation) -> bool:
    return (one.start, one.schedule, one.time_zone) == (
        other.start,
        other.schedule,
        other.time_zone,
    )
