"""Records the rows of a run's series, and the sums from which the measures are computed."""

from __future__ import annotations

from phalanx.scheduler.cycle.cluster import Cluster
from phalanx_research.timed.fragmentation import Fragmentation
from phalanx_research.timed.result import Series


class Recorder:
    """Adds up the allocated amount over time, and keeps samples of the cluster."""

    def __init__(
        self, cluster: Cluster, resource: str, fragmentation: Fragmentation, sample_s: float
    ) -> None:
        self._column = cluster.dims.index[resource]
        self._unit = cluster.dims.scale[self._column]
        self._fragmentation = fragmentation
        self._sample_s = sample_s
        self.capacity = float(cluster.capacity[:, self._column].sum()) / self._unit
        self.allocated = 0.0
        self.area = 0.0
        """The resource-seconds that were allocated so far."""
        self._last = 0.0
        self._rows: list[tuple[float, float, int, int, float]] = []

    def pass_time(self, now: float) -> None:
        """Advance the time. The allocated amount did not change since the last call."""
        self.area += self.allocated * (now - self._last)
        self._last = now

    def take(self, amount: float) -> None:
        """Allocate `amount` from now on; a negative amount is released."""
        self.allocated += amount

    def sample(
        self, cluster: Cluster, now: float, running: int, waiting: int, *, last: bool = False
    ) -> None:
        """Add a row, unless the previous row is too recent. The last row is always added."""
        if self._rows and not last and now - self._rows[-1][0] < self._sample_s:
            return
        row = (now, self.allocated, running, waiting, self._fragmentation.of(cluster))
        if self._rows and self._rows[-1][0] == now:
            self._rows[-1] = row
        else:
            self._rows.append(row)

    def series(self) -> Series:
        columns = list(zip(*self._rows, strict=True)) or [(), (), (), (), ()]
        times, allocated, running, waiting, fragmented = columns
        return Series(
            time_s=times,
            allocated=allocated,
            running_jobs=running,
            waiting_jobs=waiting,
            fragmented_pct=fragmented,
        )
