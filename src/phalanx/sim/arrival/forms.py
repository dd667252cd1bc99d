"""Allocation on `default` and on synthetic traces of the sixteen other forms, as Markdown."""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import fmean

from phalanx.sim.arrival.reproduce import measure
from phalanx.sim.arrival.synthetic import FORMS, synthetic_jobs
from phalanx.sim.traces.reading import read_jobs, read_nodes

POLICIES = ("firstfit", "fgd", "scarcity")
TRACE_SEED = 1
SEEDS = (42, 43)


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
        figures = measure(nodes, jobs, POLICIES, SEEDS)
        *others, ours = (fmean(figures[policy][0]) for policy in POLICIES)
        ahead = ours - max(others)
        behind += ahead <= 0
        cells = " | ".join(f"{value:.2f}" for value in (*others, ours))
        print(f"| {form} | {cells} | {ahead:+.2f} |", flush=True)
    return int(behind > 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
