"""Allocation on `default` and on traces of the sixteen other forms, as Markdown."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from statistics import fmean

from phalanx.sim.arrival.experiment import run_arrivals
from phalanx.sim.arrival.reproduce import INFLATE
from phalanx.sim.arrival.synthetic import FORMS, synthetic_jobs
from phalanx.sim.arrival.workload import draw_workload
from phalanx.sim.traces.reading import read_jobs, read_nodes
from phalanx.sim.traces.records import TraceJob, TraceNode

POLICIES = ("firstfit", "fgd", "scarcity")
TRACE_SEED = 1
SEEDS = (42,)
END = 1.005
"""Pods that come after that share of the GPUs was asked for do not count at 100 %."""


def allocated(nodes: Sequence[TraceNode], jobs: Sequence[TraceJob], policy: str) -> float:
    """Percent of the GPUs in use when pods have asked for 100 %, mean over `SEEDS`."""
    values = []
    for seed in SEEDS:
        workload = draw_workload(nodes, jobs, inflate=INFLATE, seed=seed)
        limit = END * 1000 * sum(node.gpus for node in nodes)
        asked = accumulate(shape.milli for shape in workload.arrivals)
        arrivals = workload.arrivals[: sum(milli <= limit for milli in asked)]
        run = run_arrivals(replace(workload, arrivals=arrivals), policy, seed=seed)
        values.append(run.at(run.alloc_pct, 100) or 0.0)
    return fmean(values)


def main(folder: Path) -> int:
    """Print one row a form; 1 when scarcity is not ahead of both others on one of them."""
    nodes = read_nodes(folder / "openb_node_list_gpu_node.csv.gz")
    default = read_jobs(folder / "openb_pod_list_default.csv.gz")
    print(f"| trace | {' | '.join(POLICIES)} | ahead by |")
    print("|---" * (len(POLICIES) + 2) + "|")
    behind = 0
    for form in ("default", *FORMS):
        jobs = default
        if form != "default":
            jobs = synthetic_jobs(form, nodes, default, seed=TRACE_SEED)
        *others, ours = (allocated(nodes, jobs, policy) for policy in POLICIES)
        ahead = ours - max(others)
        behind += ahead <= 0
        cells = " | ".join(f"{value:.2f}" for value in (*others, ours))
        print(f"| {form} | {cells} | {ahead:+.2f} |", flush=True)
    return int(behind > 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
