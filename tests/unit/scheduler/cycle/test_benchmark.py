"""The benchmark of cycles runs on a clock that counts how often it is read, and places the work
that it generates.
"""

from __future__ import annotations

from itertools import count

from phalanx.scheduler.cycle.cycle import run_cycle
from phalanx_benchmarks import deciding_cycles as benchmark


def test_every_measure_once_a_size() -> None:
    ticks = count()
    rows = benchmark.run(lambda: float(next(ticks)), sizes=(40, 80))
    assert [r["nodes"] for r in rows] == [40] * 5 + [80] * 5
    assert {r["measure"].split()[0] for r in rows} == {"full", "steady", "preempt", "reclaim"}
    assert all(r["seconds"] > 0 for r in rows)
    full = rows[0]
    assert full["pending"] == full["placed"] == 40 * benchmark.PER_NODE
    read, kept = ({**r, "measure": "", "seconds": 0, "parts": {}} for r in rows[1:3])
    assert kept["placed"] == read["placed"] > 0


def test_evicting_takes_exactly_what_is_needed() -> None:
    plan = run_cycle(benchmark.evicting(60, "preempt", 30))
    assert (len(plan.evicted), len(plan.pipelined)) == (30, 30)


def test_parts_of_the_cycle_are_timed() -> None:
    ticks = count()
    plan = run_cycle(benchmark.filling(20), clock=lambda: float(next(ticks)))
    names = [(t.part, t.name) for t in plan.timings]
    assert ("action", "allocate") in names
    assert ("plugin", "binpack") in names
    assert ("hook", "scorer binpack") in names
    assert ("hook", "filter predicates") in names
    assert ("hook", "job_order drf") in names
    assert names[0] == ("cycle", "")
    whole, *parts = [t.seconds for t in plan.timings]
    assert all(0 < seconds < whole for seconds in parts if seconds)
    assert run_cycle(benchmark.filling(20)).timings == ()
