"""The time of the hooks of a cycle, by a clock that the hooks move."""

from __future__ import annotations

from typing import Any

import numpy as np

from phalanx.scheduler.cycle.rows import Filter, never
from phalanx.scheduler.cycle.stopwatch import Stopwatch


def test_the_time_of_a_filter_contains_all_that_it_answers() -> None:
    now = [0.0]

    def takes(seconds: float) -> Any:
        def work(*_: Any) -> Any:
            now[0] += seconds
            return np.ones(1, dtype=np.bool_)

        return work

    watch = Stopwatch(lambda: now[0])
    whole = Filter(
        reason="r",
        passes=takes(1.0),
        passes_beside_leaving=takes(10.0),
        detail=takes(100.0),
        changes=never,
    )
    plain = Filter(reason="r", passes=takes(1000.0), changes=never)
    given: Any = None
    for name, one in (("whole", whole), ("plain", plain)):
        timed = watch.hook("filter", name, one)
        for fn in (timed.passes, timed.passes_beside_leaving, timed.detail):
            if fn is not None:
                fn(given, given)
    assert {timing.name: timing.seconds for timing in watch.timings()} == {
        "": 1111.0,
        "filter whole": 111.0,
        "filter plain": 1000.0,
    }
