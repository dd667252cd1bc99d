"""What the cluster's main numbers were over time, for pages: allocated, in total, jobs, queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from phalanx.head.clock import Clock
from phalanx.head.nodes import NodeDirectory
from phalanx.model.jobs import states as st
from phalanx.model.rows.work import QueueInfo
from phalanx.observe.series import Series
from phalanx.observe.usage import MAIN, added
from phalanx.protocol.requests.request import Asker
from phalanx.protocol.requests.series import GetSeries, NumberOverTime, SeriesNews

EVERY_S = 10.0
"""How often it counts at most."""
PAUSE = 1_000.0
"""So many times what counting took it waits: a thousandth of the head's time."""
MAX_SERIES = 500
"""So many numbers are kept; of queues that are gone the first makes room for a new one."""

Key = tuple[str, str]


class TimeSeries:
    """Counts when time passes, and tells who asks."""

    def __init__(
        self,
        clock: Clock,
        nodes: NodeDirectory,
        job_states: Callable[[], Iterable[str]],
        queues: Callable[[], list[QueueInfo]],
    ) -> None:
        """`job_states`: of each job, the elements of arrays left out."""
        self._clock = clock
        self._nodes = nodes
        self._job_states = job_states
        self._queues = queues
        self._series: dict[Key, Series] = {}
        self._due = clock.now()

    def tick(self, now: float) -> None:
        """Time has passed."""
        if now < self._due:
            return
        at, numbers = self._clock.wall(), self._counted()
        for key, value in numbers.items():
            series = self._series.get(key) or self._new(key, numbers)
            if series is not None:
                series.add(at, value)
        took_s = self._clock.now() - now
        self._due = now + max(EVERY_S, PAUSE * took_s)

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

    def tell(self, asker: Asker[SeriesNews], request: GetSeries) -> SeriesNews:
        """Answer."""
        told = [
            NumberOverTime(what, of, points)
            for (what, of), one in self._series.items()
            if any(points := one.tell(request.after))
        ]
        return SeriesNews(self._clock.wall(), told)
