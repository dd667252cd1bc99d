"""The benchmark of heartbeats measures what its rows say."""

from __future__ import annotations

import itertools

from phalanx_benchmarks import heartbeats


def test_every_round_is_timed_and_told():
    ticks = itertools.count()
    rows = heartbeats.run(lambda: float(next(ticks)), sizes=(3,))
    assert [row["heartbeats"] for row in rows] == ["all changes", "nothing changes"]
    assert all(row["nodes"] == 3 and row["of a core"] == 1.0 for row in rows)
    assert next(ticks) == 2 * 2 * heartbeats.ROUNDS
