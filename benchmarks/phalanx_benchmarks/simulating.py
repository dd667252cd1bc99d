"""The speed of the simulator with inputs of several sizes: the arrival experiment, and a synthetic
day. The caller passes `clock`, in seconds. The day of a million tasks is a separate benchmark,
`phalanx_research.timed.benchmark`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from phalanx_research.arrival.experiment import run_arrivals
from phalanx_research.arrival.workload import draw_workload
from phalanx_research.timed import benchmark as timed
from phalanx_research.traces.reading import read_jobs, read_nodes

Row = dict[str, Any]

TRACES = Path("examples/traces")
"""The folder with the traces in a checkout. Without it, the arrival experiment is left out."""
POLICIES = ("firstfit", "fgd", "scarcity")
PARTS = (4, 2, 1)
"""The parts of the trace that are measured, as divisors: every fourth, every second, and every node
and pod.
"""
DAYS = timed.SIZES[:-1]
SEED = 42


def run(
    clock: Callable[[], float],
    traces: Path = TRACES,
    parts: Sequence[int] = PARTS,
    days: Sequence[tuple[int, int]] = DAYS,
) -> list[Row]:
    """Return a row for each policy and each part of the default trace, and a row for each synthetic
    day.
    """
    rows = [row for part in parts for row in _arrivals(clock, traces, part)]
    return rows + timed.run(clock, days)


def _arrivals(clock: Callable[[], float], traces: Path, part: int) -> list[Row]:
    """Run the whole experiment, including reading the files and measuring fragmentation."""
    nodes_file = traces / "openb_node_list_gpu_node.csv.gz"
    if not nodes_file.exists():
        return []
    rows = []
    for policy in POLICIES:
        start = clock()
        nodes = read_nodes(nodes_file)[::part]
        jobs = read_jobs(traces / "openb_pod_list_default.csv.gz")[::part]
        workload = draw_workload(nodes, jobs, inflate=1.3, seed=SEED)
        result = run_arrivals(workload, policy, seed=SEED)
        took = clock() - start
        rows.append({
            "measure": f"arrivals, {policy}",
            "tasks": result.pods,
            "nodes": len(nodes),
            "seconds": took,
            "tasks_per_second": result.pods / took if took else 0.0,
            "decisions_per_second": result.placements_per_s,
            "allocation_pct": result.at(result.alloc_pct, 100) or 0.0,
        })  # fmt: skip
    return rows
