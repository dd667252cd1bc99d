"""What the program in this process has counted itself: any thread counts, the node hears of it."""

from __future__ import annotations

import os
import threading
from bisect import bisect_left

from phalanx.observe.metrics.definitions import GAUGE, HISTOGRAM, Definition, Numbers
from phalanx.observe.metrics.program_metrics import RecordedMetrics


class ProgramMetrics:
    """Counts under a lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = RecordedMetrics()

    def know(self, name: str, definition: Definition) -> None:
        """There is a metric of this name. Raises ValueError (see RecordedMetrics.family)."""
        with self._lock:
            self._numbers.family(name, definition)

    def record(
        self, name: str, definition: Definition, labels: tuple[str, ...], value: float
    ) -> None:
        """Add to a counter, set a gauge, or have a histogram count a value."""
        with self._lock:
            sample = self._numbers.family(name, definition).sample(labels)
            if definition.kind == HISTOGRAM:
                assert sample.counts is not None
                sample.counts[bisect_left(definition.bounds, value)] += 1
            sample.value = value if definition.kind == GAUGE else sample.value + value

    def drain(self) -> list[Numbers]:
        """What was counted since the last call, and gauges that were set."""
        with self._lock:
            return self._numbers.drain()

    def after_fork(self) -> None:
        """In a child: what was counted before is its parent's to tell, whoever held the lock."""
        self._lock = threading.Lock()
        self._numbers.drain()


PROGRAM = ProgramMetrics()
"""Of this process."""
os.register_at_fork(after_in_child=PROGRAM.after_fork)
