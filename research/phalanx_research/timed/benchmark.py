"""Measures the simulator on a synthetic day, with clusters of several sizes. `run(clock)` returns a
row for each size.

The scheduler has the configuration of Volcano's chart. A cycle runs every two virtual minutes if
something has changed. The caller passes `clock`, in seconds, because no code here reads a clock.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Sequence
from typing import Any

from phalanx.scheduler.cycle.config import CHART_YAML, parse_volcano
from phalanx.scheduler.cycle.registry import known_plugins
from phalanx_research.timed import synthetic
from phalanx_research.timed.loop import simulate
from phalanx_research.timed.workload import Rules

SIZES = ((10_000, 100), (100_000, 1_000), (1_000_000, 10_000))
"""The measured sizes, as pairs of the number of tasks and the number of machines."""
RULES = Rules(period_s=120.0, sample_s=600.0)
SEED = 42


def run(
    clock: Callable[[], float], sizes: Sequence[tuple[int, int]] = SIZES
) -> list[dict[str, Any]]:
    """Return a row for each size. `memory_mib` is the peak memory of the process so far."""
    return [_measure(clock, tasks, nodes) for tasks, nodes in sizes]


def _measure(clock: Callable[[], float], tasks: int, nodes: int) -> dict[str, Any]:
    jobs = synthetic.jobs(tasks, nodes, SEED)
    machines = synthetic.machines(nodes)
    config = parse_volcano(CHART_YAML, known_plugins())
    start = clock()
    result = simulate(
        jobs, machines, config=config, queues=synthetic.queues(), rules=RULES, clock=clock
    )
    took = clock() - start
    measures = result.measures
    return {
        "measure": "synthetic day",
        "tasks": tasks,
        "nodes": nodes,
        "jobs": measures.jobs,
        "finished": measures.finished,
        "cycles": measures.cycles,
        "seconds": took,
        "tasks_per_second": tasks / took if took else 0.0,
        "decisions_per_second": measures.decisions_per_s or 0.0,
        "allocation_pct": measures.allocation_pct,
        "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
