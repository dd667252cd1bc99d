"""The book of events: what happened lately, numbered, with who and why, kept in the state store.

What happens is noted in memory. Rows are written when time passes, some at a time, so that nothing
waits for them; a head that is killed loses those of its last moment. What happens to jobs and gangs
has pages of its own: it is much, and must crowd nothing else out.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from phalanx.head.clock import Clock
from phalanx.head.state_store import StateStore
from phalanx.model.rows.events import EventInfo
from phalanx.observe.events import KINDS, EventPage, EventQuery, check_events, is_meant

TABLE = "events"
KEEP_OF_JOBS = 8_000
KEEP_OTHERS = 2_000
"""So many events are kept of jobs and gangs, and of all else."""
MAX_TEXT = 300
"""Of a reason, a name or who did it; what is longer is cut."""
WRITES = 500
"""So many rows of each are written at most when time passes."""
_TEXTS = frozenset({"job", "queue", "user", "host", "name", "by", "why"})


class _Pages:
    """The newest events of some kinds, and how far they are written."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.rows: deque[EventInfo] = deque(maxlen=most)
        self._unwritten: deque[EventInfo] = deque(maxlen=most)
        self._stored: deque[int] = deque()

    def add(self, event: EventInfo) -> None:
        self.rows.append(event)
        self._unwritten.append(event)

    def write(self, state_store: StateStore) -> None:
        for _ in range(min(WRITES, len(self._unwritten))):
            event = self._unwritten.popleft()
            state_store.keep(TABLE, _key(event.number), event)
            self._stored.append(event.number)
            if len(self._stored) > self._most:
                state_store.keep(TABLE, _key(self._stored.popleft()), None)

    def know(self, event: EventInfo) -> None:
        self.rows.append(event)
        self._stored.append(event.number)


class EventLog:
    """Notes, numbers, keeps and finds events."""

    def __init__(self, state_store: StateStore, clock: Clock) -> None:
        self._state_store = state_store
        self._clock = clock
        self._of_jobs = _Pages(KEEP_OF_JOBS)
        self._others = _Pages(KEEP_OTHERS)
        self._newest = 0
        self._asking = ""

    def wall(self) -> float:
        """The time of day by which events are noted."""
        return self._clock.wall()

    @contextmanager
    def asked_by(self, user: str) -> Iterator[None]:
        """What happens inside was asked for by this user."""
        before, self._asking = self._asking, user
        try:
            yield
        finally:
            self._asking = before

    def note(self, kind: str, *, at: float | None = None, **fields: Any) -> None:
        """Something happened: see EventInfo. Now, unless `at` says when; by who asks for something
        now, unless `by` says who."""
        assert kind in KINDS, kind
        wall = self._clock.wall()
        fields.setdefault("by", self._asking)
        for name in _TEXTS & fields.keys():
            if len(fields[name]) > MAX_TEXT:
                fields[name] = f"{fields[name][: MAX_TEXT - 1]}…"
        # The next head goes on above these also where it never hears of the last ones.
        self._newest = max(self._newest + 1, int(1000 * wall))
        at = wall if at is None else at
        event = EventInfo(number=self._newest, at=at, kind=kind, **fields)
        self._pages_of(event).add(event)

    def _pages_of(self, event: EventInfo) -> _Pages:
        return self._of_jobs if event.job else self._others

    # ---- the state store ---------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Time has passed: write some of what was noted. A store without room for new work takes
        no events either."""
        if not self._state_store.shortage:
            self._of_jobs.write(self._state_store)
            self._others.write(self._state_store)

    def restore(self, rows: Iterable[EventInfo]) -> None:
        """Know again what an earlier head wrote."""
        for row in sorted(rows, key=lambda one: one.number):
            self._newest = row.number
            self._pages_of(row).know(row)

    @property
    def jobs_until(self) -> float:
        """When the newest event of a job happened; 0 where there is none."""
        return max((row.at for row in self._of_jobs.rows), default=0.0)

    @property
    def kept(self) -> int:
        """So many events are kept."""
        return len(self._of_jobs.rows) + len(self._others.rows)

    # ---- questions ---------------------------------------------------------------------------

    def page(self, query: EventQuery) -> EventPage:
        """The events that a question means. Raises ValueError for one that is none."""
        check_events(query)
        of_jobs, others = self._of_jobs.rows, self._others.rows
        found: list[EventInfo] = []
        is_cut = False
        newest_first = heapq.merge(reversed(of_jobs), reversed(others), key=lambda one: -one.number)
        for event in newest_first:
            if event.number <= query.after:
                break
            if not is_meant(event, query):
                continue
            if len(found) == query.limit:
                is_cut = True
                break
            found.append(event)
        found.reverse()
        return EventPage(events=found, newest=self._newest, kept=self.kept, is_cut=is_cut)


def _key(number: int) -> bytes:
    return number.to_bytes(8, "big")
