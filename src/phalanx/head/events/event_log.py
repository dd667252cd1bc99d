"""The log of recent events, numbered, each with its cause and user, kept in the state store.

Events are first noted in memory. Their rows are written a few at a time with each tick, so that no
request waits for them. A head that is killed loses the events that it had not written yet. Events
of jobs and gangs are kept apart from other events, because they are numerous and must not displace
those.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable
from typing import Any

import msgspec

from phalanx.head.clock import Clock
from phalanx.head.rights.owners import sees
from phalanx.head.state_store import StateStore
from phalanx.model.rows.events import EventInfo
from phalanx.observe.events import KINDS, EventPage, EventQuery, check_events, is_meant
from phalanx.protocol.requests.events import ListEvents
from phalanx.protocol.requests.request import Asker, Entry

TABLE = "events"
KEEP_OF_JOBS = 8_000
KEEP_OTHERS = 2_000
"""The largest numbers of events that are kept: KEEP_OF_JOBS of jobs and gangs, and KEEP_OTHERS of
everything else.
"""
MAX_TEXT = 300
"""The largest number of characters of a reason, a name or a user. Longer texts are cut."""
WRITES = 500
"""The largest number of rows that are written in one tick: for events of jobs and gangs, and again
for other events.
"""
_TEXTS = frozenset({"job", "queue", "user", "host", "name", "by", "why"})


class _Pages:
    """The newest events of some kinds, and which of them are already written to the store."""

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
    """Records, numbers, keeps and finds events."""

    def __init__(self, state_store: StateStore, clock: Clock) -> None:
        self._state_store = state_store
        self._clock = clock
        self._of_jobs = _Pages(KEEP_OF_JOBS)
        self._others = _Pages(KEEP_OTHERS)
        self._newest = 0
        self.asking = ""
        """The user whose request is being handled. Noted events are attributed to this user."""

    def wall(self) -> float:
        """Return the wall-clock time that events are stamped with."""
        return self._clock.wall()

    def note(self, kind: str, *, at: float | None = None, **fields: Any) -> None:
        """Note an event; see EventInfo for the fields.

        Without `at`, the time is now. Without `by`, the user is the asker of the present request.
        """
        assert kind in KINDS, kind
        wall = self._clock.wall()
        fields.setdefault("by", self.asking)
        for name in _TEXTS & fields.keys():
            if len(fields[name]) > MAX_TEXT:
                fields[name] = f"{fields[name][: MAX_TEXT - 1]}…"
        # The next head continues with higher numbers, even if the last events were never written.
        self._newest = max(self._newest + 1, int(1000 * wall))
        at = wall if at is None else at
        event = EventInfo(number=self._newest, at=at, kind=kind, **fields)
        self._pages_of(event).add(event)

    def _pages_of(self, event: EventInfo) -> _Pages:
        return self._of_jobs if event.job else self._others

    # ---- the state store ---------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Write some of the noted events. Nothing is written while the store has too little free
        space for new work.
        """
        if not self._state_store.shortage:
            self._of_jobs.write(self._state_store)
            self._others.write(self._state_store)

    def restore(self, rows: Iterable[EventInfo]) -> None:
        """Restore what an earlier head wrote."""
        for row in sorted(rows, key=lambda one: one.number):
            self._newest = row.number
            self._pages_of(row).know(row)

    @property
    def jobs_until(self) -> float:
        """Return the time of the newest event of a job; 0 without events of jobs."""
        return max((row.at for row in self._of_jobs.rows), default=0.0)

    @property
    def kept(self) -> int:
        """Return the number of events that are kept."""
        return len(self._of_jobs.rows) + len(self._others.rows)

    # ---- questions ---------------------------------------------------------------------------

    def entries(self) -> list[Entry]:
        """Return the requests that this object answers, each with its handler."""
        return [ListEvents.handled_by(self._list)]

    def _list(self, asker: Asker[EventPage], request: ListEvents) -> EventPage:
        page = self.page(request.query)
        seen = [one for one in page.events if sees(asker, one.user)]
        return msgspec.structs.replace(page, events=seen)

    def page(self, query: EventQuery) -> EventPage:
        """Return the events that match a query. Raises ValueError for an invalid query."""
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
