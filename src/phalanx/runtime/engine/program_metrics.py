"""The metrics that this process's program records. Any thread may record, and the node collects
them.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_left

from phalanx.observe.metrics.definitions import GAUGE, HISTOGRAM, Definition, Numbers
from phalanx.observe.metrics.program_metrics import RecordedMetrics


class ProgramMetrics:
    """The recorded numbers, under a lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = RecordedMetrics()

    def know(self, name: str, definition: Definition) -> None:
        """Define a metric. Raises ValueError (see RecordedMetrics.family)."""
        with self._lock:
            self._numbers.family(name, definition)

    def record(
        self, name: str, definition: Definition, labels: tuple[str, ...], value: float
    ) -> None:
        """Add to a counter, set a gauge, or count a value in a histogram."""
        with self._lock:
            sample = self._numbers.family(name, definition).sample(labels)
            if definition.kind == HISTOGRAM:
                assert sample.counts is not None
                sample.counts[bisect_left(definition.bounds, value)] += 1
            sample.value = value if definition.kind == GAUGE else sample.value + value

    def drain(self) -> list[Numbers]:
        """Return the counts since the last call, and the gauges that were set."""
        with self._lock:
            return self._numbers.drain()

    def after_fork(self) -> None:
        """Begin again in a forked child: the parent reports the earlier numbers, and may have held
        the lock during the fork.
        """
        self._lock = threading.Lock()
        self._numbers.drain()


PROGRAM = ProgramMetrics()
"""The metrics of this process."""
os.register_at_fork(after_in_child=PROGRAM.after_fork)
