"""Follows a cluster: asks the head on behalf of all viewers, and keeps the answers. After each
answer it waits a multiple of the response time (`pace`). So it takes at most two hundredths of the
head's time, even in a large cluster.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from phalanx.dashboard.pace import MOST_S, SHARE, Pace
from phalanx.model.rows.cluster import NodeInfo, StatusInfo
from phalanx.model.rows.events import EventInfo
from phalanx.model.rows.work import GangInfo, JobInfo, QueueInfo
from phalanx.observe.events import MAX_EVENTS, EventQuery
from phalanx.observe.series import Series
from phalanx.protocol.requests.cluster import GetStatus
from phalanx.protocol.requests.events import ListEvents
from phalanx.protocol.requests.jobs import GetMemberUse, ReadJobLog
from phalanx.protocol.requests.news import (
    ClusterNews,
    GetNews,
    ListWaiting,
    Since,
    WaitInfo,
    with_wait,
)
from phalanx.protocol.requests.node_use import GetNodeUse
from phalanx.protocol.requests.request import Request
from phalanx.protocol.requests.series import GetSeries, SeriesNews
from phalanx.protocol.requests.state import QueryState

R = TypeVar("R")
Ask = Callable[[Request[Any]], Any]
"""The function that sends a request to the head and waits for the answer. Raises ConnectionError
and TimeoutError.
"""

WATCHED_S = 1.0
UNWATCHED_S = 10.0
"""Seconds between two requests while nobody views a page. The requests keep the snapshot fresh, so
that the next viewer sees a page immediately.
"""
COUNTED_S = 10.0
"""Seconds between two requests for numbers over time. The head takes a sample of them equally
often.
"""
INTEREST_S = 15.0
"""Seconds after the last request of a page for which the page counts as viewed."""
KEPT_ANSWERS = 200
"""The number of shared answers that are kept."""
GATHERED = (QueryState, GetNodeUse, GetMemberUse, ReadJobLog)
"""The requests that nodes answer, through the head."""
GATHERED_MOST_S = 10.0
"""The longest pause, in seconds, after the answer to a request of `GATHERED`."""
PATIENCE_S = 5.0
"""The most seconds for which a request waits for a new snapshot."""
_TURN_S = 0.05


class ClusterSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The snapshot of a cluster: the head's last answers."""

    version: int
    at: float
    """The time of the answers by the head's clock, in seconds since the epoch."""
    status: StatusInfo
    jobs: list[JobInfo]
    gangs: list[GangInfo]
    queues: list[QueueInfo]
    events: list[EventInfo] = []
    """The last events, the oldest first."""
    trouble: str = ""
    """The reason why the snapshot is not newer; empty while the head answers."""
    waits: dict[str, str] = {}
    """The code of the first reason why a job waits, by NAMESPACE/NAME."""
    refusers: dict[str, str] = {}
    """The plugin that gives the first reason why a job waits, by NAMESPACE/NAME."""


class Watch:
    """Keeps the last snapshot of a cluster and its numbers over time. It runs on one event loop."""

    def __init__(self, ask: Ask, wall: Callable[[], float] = time.time) -> None:
        self._ask = ask
        self._wall = wall
        self._news = asyncio.Condition()
        self._is_over = False
        self._pace = Pace()
        self._since = Since()
        self._nodes: dict[str, NodeInfo] = {}
        self._jobs: dict[str, JobInfo] = {}
        self._gangs: dict[str, GangInfo] = {}
        self._queues: list[QueueInfo] = []
        self._events: list[EventInfo] = []
        self._waits: dict[str, WaitInfo] = {}
        self._waits_due = self._waits_took = 0.0
        self._answers: dict[str, tuple[int, Any]] = {}
        self._asking: dict[str, asyncio.Task[Any]] = {}
        """The shared questions that wait for their answers."""
        self._more_due = 0.0
        self._gathered_due: dict[str, float] = {}
        self._series_news: SeriesNews | None = None
        self._series_at = self._series_due = 0.0
        """`_series_at`: the head's time up to which numbers over time were read. `_series_due`: the
        time of the next read.
        """
        self._ahead_s = 0.0
        """Seconds by which the head's wall-clock time is ahead of this process's time."""
        self._is_first = True
        """Whether the first snapshot is not complete yet."""
        self.viewers = 0
        self._wanted_until = 0.0
        self.snapshot: ClusterSnapshot | None = None
        self.trouble = ""
        """The reason why the last question had no answer; empty if it had one."""
        self.series: dict[tuple[str, str], Series] = {}
        """The head's numbers over time, by kind and thing counted (`NumberOverTime`)."""

    async def run(self) -> None:
        """Ask the head again and again, until `close` is called."""
        while not self._is_over:
            await self._look()
            async with self._news:
                self._news.notify_all()
            looked, least_s = time.monotonic(), 0.0 if self.trouble else self._pace.pause_s
            while not self._is_over:
                usual_s = WATCHED_S if self._is_watched() else UNWATCHED_S
                if time.monotonic() >= looked + max(usual_s, least_s):
                    break
                await asyncio.sleep(_TURN_S)

    def _is_watched(self) -> bool:
        return bool(self.viewers) or time.monotonic() < self._wanted_until

    async def fresh(self) -> ClusterSnapshot | None:
        """Return the snapshot.

        If nobody viewed a page for a while, ask for a new snapshot first. Returns None if the head
        has never answered.
        """
        was_watched = self._is_watched()
        self._wanted_until = time.monotonic() + INTEREST_S
        if self.snapshot is None:
            return await self.newer(0, PATIENCE_S)
        if was_watched or self.snapshot.trouble:
            return self.snapshot
        return await self.newer(self.snapshot.version, PATIENCE_S) or self.snapshot

    async def _look(self) -> None:
        begun, was_first = time.monotonic(), self._is_first
        try:
            status = await asyncio.to_thread(self._fetch)
        except Exception as error:  # any error is shown on the page, and the next look asks again
            self.trouble = f"The head gives no answer: {error}"
            if self.snapshot is not None:
                self.snapshot = msgspec.structs.replace(
                    self.snapshot, version=self.snapshot.version + 1, trouble=self.trouble
                )
            return
        self._take_numbers()  # on the event loop, where pages read the numbers
        if not was_first:  # the first answer holds everything, so it takes longer
            self._pace.heard(time.monotonic() - begun - self._waits_took)
        self.trouble = ""
        self.snapshot = ClusterSnapshot(
            version=1 if self.snapshot is None else self.snapshot.version + 1,
            at=self._wall() + self._ahead_s,
            status=msgspec.structs.replace(status, nodes=list(self._nodes.values())),
            jobs=[with_wait(job, self._waits.get(uid)) for uid, job in self._jobs.items()],
            gangs=list(self._gangs.values()),
            queues=self._queues,
            events=self._events,
            waits={uid: wait.code for uid, wait in self._waits.items()},
            refusers={uid: wait.plugin for uid, wait in self._waits.items()},
        )

    def _fetch(self) -> StatusInfo:
        """Read all changes and, less often, the reasons why jobs wait, which cost most. Runs in a
        thread. Returns the head's status.
        """
        self._waits_took = 0.0
        status: StatusInfo = self._ask(GetStatus(is_brief=True))
        is_more = True
        while is_more:
            is_more = self._take(self._ask(GetNews(self._since)))
        after = self._events[-1].number if self._events else 0
        news = self._ask(ListEvents(EventQuery(after=after, limit=MAX_EVENTS))).events
        if news:  # a new list: pages may still read the old one
            self._events = [*self._events, *news][-MAX_EVENTS:]
        if time.monotonic() >= self._series_due:
            self._series_due = time.monotonic() + COUNTED_S
            self._series_news = self._ask(GetSeries(self._series_at))
            self._ahead_s = self._series_news.at - self._wall()
        if not any(job.pending for job in self._jobs.values()):
            self._waits = {}
        elif time.monotonic() >= self._waits_due:
            begun = time.monotonic()
            self._waits = {one.job: one for one in self._ask(ListWaiting())}
            self._waits_took = time.monotonic() - begun
            self._waits_due = time.monotonic() + min(self._waits_took * SHARE, MOST_S)
        return status

    def _take(self, news: ClusterNews) -> bool:
        if news.is_new:
            self._series_at = self._series_due = 0.0
            self._jobs, self._nodes, self._gangs, self._events = {}, {}, {}, []
        named = {f"{row.namespace}/{row.name}": row for row in news.jobs}
        if not news.is_more:
            self._is_first = False
        self._since, self._queues = news.since, news.queues
        self._nodes |= {row.node_id: row for row in news.nodes}
        self._jobs |= named
        self._gangs |= {row.group: row for row in news.gangs}
        for node in news.gone_nodes:
            self._nodes.pop(node, None)
        for job in news.gone_jobs:
            self._jobs.pop(job, None)
        for gang in news.gone_gangs:
            self._gangs.pop(gang, None)
        return news.is_more

    def _take_numbers(self) -> None:
        news, self._series_news = self._series_news, None
        if news is not None:
            self._series_at = news.at
            for one in news.numbers:
                self.series.setdefault((one.what, one.of), Series()).update(one.points)

    async def ask(self, request: Request[R]) -> R:
        """Return the head's answer to a request that the snapshot does not answer. Raises the error
        that the head answers.
        """
        answer: R = await asyncio.to_thread(self._ask, request)
        return answer

    async def shared(self, request: Request[R], version: int) -> R:
        """Return an expensive answer, which all viewers of this version of the snapshot share. An
        old answer is used until the pause after the last question is over. Without an old answer,
        the head is asked immediately. While a question is open, it is not asked a second time. It
        stays open even if its asker gives up.

        The head waits for nodes when it answers a question of `GATHERED`, and does other work
        meanwhile. So such a question has a shorter pause of its own, and delays no other question.
        """
        what = repr(request)
        is_gathered = isinstance(request, GATHERED)
        due = self._gathered_due.get(what, 0.0) if is_gathered else self._more_due
        kept = self._answers.get(what)
        if kept is not None and (kept[0] == version or time.monotonic() < due):
            known: R = kept[1]
            return known
        asking = self._asking.get(what)
        if asking is None:
            asking = asyncio.create_task(self._asked(request, version))
            self._asking[what] = asking
            asking.add_done_callback(lambda _: self._asking.pop(what))
        answer: R = await asyncio.shield(asking)
        return answer

    async def _asked(self, request: Request[R], version: int) -> R:
        """Ask a shared question. Note the answer, and when the next question may be asked."""
        what = repr(request)
        is_gathered = isinstance(request, GATHERED)
        begun = time.monotonic()
        answer = await self.ask(request)
        took = time.monotonic() - begun
        if is_gathered:
            self._gathered_due[what] = begun + min(took * SHARE, GATHERED_MOST_S)
        else:
            self._more_due = max(self._more_due, begun) + min(took * SHARE, MOST_S)
        self._answers.pop(what, None)
        self._answers[what] = (version, answer)
        if len(self._answers) > KEPT_ANSWERS:
            oldest = next(iter(self._answers))
            del self._answers[oldest]
            self._gathered_due.pop(oldest, None)
        return answer

    async def newer(self, version: int, patience_s: float) -> ClusterSnapshot | None:
        """Wait for a snapshot after `version` and return it. Returns None after `patience_s`
        seconds, after `close`, and if the head has never answered.
        """
        deadline = time.monotonic() + patience_s
        async with self._news:
            while not self._is_over:
                if self.snapshot is not None and self.snapshot.version > version:
                    return self.snapshot
                if self.snapshot is None and self.trouble:
                    return None
                left = deadline - time.monotonic()
                if left <= 0:
                    return None
                try:
                    # asyncio.wait_for would wait in another task, which does not hold the lock
                    # when this one is cancelled first.
                    async with asyncio.timeout(left):
                        await self._news.wait()
                except TimeoutError:
                    return None
        return None

    async def close(self) -> None:
        """End the questions, and wake all requests that wait for a snapshot."""
        self._is_over = True
        async with self._news:
            self._news.notify_all()

    @property
    def is_over(self) -> bool:
        """Whether `close` was called."""
        return self._is_over
