"""The benchmark of gangs and jobs, small: every row has its figures."""

from __future__ import annotations

import time

from phalanx_benchmarks import gangs


def test_every_row_has_its_figures():
    rows = gangs.run(time.perf_counter, gangs=3, starts=2, pending=5)
    assert [row["what"].split()[0] for row in rows] == ["3", "submit", "explain"]
    for row in rows:
        assert row["per s"] > 0
        assert row["ms"] > 0
