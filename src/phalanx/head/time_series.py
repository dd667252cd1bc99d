"""The cluster's main numbers over time, for web pages: amounts allocated, in use and in total, and
the work of queues and jobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from phalanx.head.clock import Clock
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.model.jobs import states as st
from phalanx.model.rows.work import QueueInfo
from phalanx.observe.series import Series
from phalanx.observe.usage import MAIN, added
from phalanx.protocol.requests.request import Asker
from phalanx.protocol.requests.series import GetSeries, NumberOverTime, SeriesNews

EVERY_S = 10.0
"""The shortest time, in seconds, between two points."""
PAUSE = 1_000.0
"""The pause before the next point, as a multiple of the time that it took to compute the last one.
So this computation takes at most a thousandth of the head's time.
"""
MAX_SERIES = 500
"""The largest number of series that are kept. When it is reached, a new series replaces one without
current numbers, such as the series of a deleted queue.
"""

Key = tuple[str, str]


class TimeSeries:
    """Adds a point to each series at intervals, and answers requests for points."""

    def __init__(
        self,
        clock: Clock,
        nodes: NodeDirectory,
        job_states: Callable[[], Iterable[str]],
        queues: Callable[[], list[QueueInfo]],
        used: Callable[[], Mapping[str, float]],
    ) -> None:
        """`job_states` returns the state of each job, without array tasks. `used` returns the
        amounts in use on the machines, by resource.
        """
        self._used = used
        self._clock = clock
        self._nodes = nodes
        self._job_states = job_states
        self._queues = queues
        self._series: dict[Key, Series] = {}
        self._due = clock.now()

    def tick(self, now: float) -> None:
        """Add a point to each series, if one is due."""
        if now < self._due:
            return
        at, numbers = self._clock.wall(), self._counted()
        for key, value in numbers.items():
            series = self._series.get(key) or self._new(key, numbers)
            if series is not None:
                series.add(at, value)
        took_s = self._clock.now() - now
        self._due = now + max(EVERY_S, PAUSE * took_s)

    def clock_stepped(self, step_s: float) -> None:
        """Shift all points after the clock was stepped by this many seconds. New points then follow
        at the correct distance.
        """
        for series in self._series.values():
            series.move(step_s)

    def _new(self, key: Key, numbers: dict[Key, float]) -> Series | None:
        if len(self._series) >= MAX_SERIES:
            gone = next((one for one in self._series if one not in numbers), None)
            if gone is None:
                return None
            del self._series[gone]
        return self._series.setdefault(key, Series())

    def _counted(self) -> dict[Key, float]:
        numbers: dict[Key, float] = {}
        for name, (used, total) in added(self._holdings()).items():
            if name in MAIN and total:
                numbers["allocated", name], numbers["total", name] = used, total
        for name, used in self._used().items():
            if ("total", name) in numbers:
                numbers["used", name] = used
        states = Counter(self._job_states())
        numbers["jobs", "running"] = states[st.RUNNING]
        numbers["jobs", "waiting"] = states[st.PENDING]
        for queue in self._queues():
            for name in MAIN:
                if name in queue.allocated or name in queue.requested:
                    numbers[f"queue {queue.name}", name] = queue.allocated.get(name, 0.0)
        return numbers

    def _holdings(self) -> Iterator[tuple[Mapping[str, float], Mapping[str, float]]]:
        for record in self._nodes.living():
            yield record.totals, self._nodes.last_report(record.node_id).available

    def answer(self, asker: Asker[SeriesNews], request: GetSeries) -> SeriesNews:
        """Answer with the points that are later than the time in the request."""
        numbers = [
            NumberOverTime(what, of, points)
            for (what, of), one in self._series.items()
            if any(points := one.points_after(request.after))
        ]
        return SeriesNews(self._clock.wall(), numbers)
