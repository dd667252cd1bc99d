"""The record of a reservation, and the windows in which it is kept.

A reservation that has begun stays in its window until the window ends, even if the clock is set
back to before the beginning. A window that has ended is not repeated.
"""

from __future__ import annotations

import msgspec

from phalanx.manifests.cron import parse_schedule
from phalanx.model.reservations import Reservation
from phalanx.scheduler.cycle.specs import ReservationSpec

WINDOWS = 16
"""The number of windows of a recurring reservation that are computed. The windows after them are
not known, so the last computed window counts as endless.
"""

Window = tuple[float, float | None]


class ReservationRecord(msgspec.Struct, kw_only=True, eq=False):
    """A reservation, as stored. Times are in seconds since the epoch."""

    spec: Reservation
    created: float
    start: float
    """When the reservation begins, if it does not recur."""
    length_s: float | None
    """The length of a window in seconds; None if the window lasts until the reservation is
    deleted.
    """
    places: dict[str, dict[str, float]] = {}
    """The amounts that the reservation keeps on each node, by node id and by the scheduler's name
    of the resource; {} means the whole node.
    """
    begun: float | None = None
    """The time when the current window began."""
    last: float | None = None
    """The beginning of the latest window that has ended."""
    drained: list[str] = []
    """The nodes that drain for the reservation."""

    @property
    def name(self) -> str:
        return self.spec.name


def windows(record: ReservationRecord, now: float) -> list[Window]:
    """Return the reservation's current window, if any, and the windows that follow. If the
    reservation is over, there are none.
    """
    length_s = record.length_s
    if not record.spec.schedule:
        end = None if length_s is None else record.start + length_s
        if record.begun is None and end is not None and end <= now:
            return []
        return [(record.start if record.begun is None else min(record.begun, now), end)]
    assert length_s is not None, "what recurs has a length"
    found: list[Window] = []
    last = record.last if record.last is not None else 0.0
    # If the clock was ahead when the last window began, the windows until then have not come yet.
    after = max(now - length_s, record.created, last if last <= now else 0.0)
    if record.begun is not None:
        found.append((min(record.begun, now), record.begun + length_s))
        after = record.begun
    schedule = parse_schedule(record.spec.schedule)
    while len(found) < WINDOWS:
        moment = schedule.after(after, record.spec.time_zone)
        if moment is None:
            return found
        after = moment
        if moment == record.last:
            continue
        begin = max(moment, found[-1][1] or moment) if found else moment
        if begin < moment + length_s:
            found.append((begin, moment + length_s))
    return [*found[:-1], (found[-1][0], None)]


def window_now(record: ReservationRecord, now: float) -> Window | None:
    """Return the reservation's current window; None if no window has begun."""
    if record.begun is None:
        return None
    return record.begun, None if record.length_s is None else record.begun + record.length_s


def spec_of(record: ReservationRecord, now: float) -> ReservationSpec:
    """Return the reservation in the form that cycles and plans read."""
    spec = record.spec
    return ReservationSpec(
        name=spec.name,
        places=tuple((n, tuple(sorted(has.items()))) for n, has in sorted(record.places.items())),
        windows=tuple(windows(record, now)),
        users=spec.users,
        queues=spec.queues,
        maintenance=spec.maintenance,
    )
