"""Prints the published table of the fragmentation experiment next to Phalanx's figures, as
Markdown.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, stdev

from phalanx_research.arrival.experiment import run_arrivals
from phalanx_research.arrival.workload import draw_workload
from phalanx_research.traces.reading import read_jobs, read_nodes
from phalanx_research.traces.records import TraceJob, TraceNode

SEEDS = tuple(range(42, 52))
INFLATE = 1.3
MEASURES = (
    "alloc_pct_at_arrived_100",
    "alloc_pct_at_arrived_130",
    "frag_pct_capacity_at_50",
    "frag_pct_capacity_at_100",
)
TITLES = (
    "allocated, % of GPUs, at 100 % arrived",
    "allocated, % of GPUs, at 130 % arrived",
    "fragmented, % of GPUs, at 50 % arrived",
    "fragmented, % of GPUs, at 100 % arrived",
)
PUBLISHED: dict[str, tuple[float, float, float, float]] = {
    "random": (86.30, 87.47, 15.10, 13.49),
    "dotprod": (90.62, 90.85, 12.09, 9.30),
    "gpuclustering": (91.65, 91.88, 12.11, 8.21),
    "gpupacking": (91.78, 92.00, 12.01, 8.13),
    "bestfit": (92.86, 93.08, 10.81, 7.05),
    "fgd": (95.23, 95.39, 8.93, 4.73),
}
"""Published means over ten seeds on the trace `default`, by policy in the order of `MEASURES` (Weng
et al., USENIX ATC 2023, expected results of its artifact).
"""
BESIDE = ("firstfit", "scarcity")
"""The policies that are not in the paper."""
CELL_LIMIT, MEAN_LIMIT = 1.0, 0.3
"""The allowed differences from the published values, in percentage points: of each cell, and of the
mean of all cells.
"""

Figures = dict[str, list[list[float]]]
"""The values of all seeds, for each policy and each of `MEASURES`."""


def measure(
    nodes: Sequence[TraceNode],
    jobs: Sequence[TraceJob],
    policies: Sequence[str],
    seeds: Sequence[int],
    report: Callable[[str], None] = lambda text: None,
) -> Figures:
    """Run each policy on the workload of each seed."""
    figures: Figures = {}
    for policy in policies:
        runs = []
        for seed in seeds:
            workload = draw_workload(nodes, jobs, inflate=INFLATE, seed=seed)
            runs.append(run_arrivals(workload, policy, seed=seed).figures())
        figures[policy] = [[float(run[name] or 0.0) for run in runs] for name in MEASURES]
        report(policy)
    return figures


def differences(figures: Figures) -> list[float]:
    """Return Phalanx's mean minus the published mean, for each cell."""
    return [
        fmean(ours) - published
        for policy, cells in PUBLISHED.items()
        for ours, published in zip(figures[policy], cells, strict=True)
    ]


def table(figures: Figures) -> str:
    """Return a Markdown table of the published means, Phalanx's means with their spread, and the
    differences, for each measure.
    """
    lines = []
    policies = [*PUBLISHED, *BESIDE]
    for at, title in enumerate(TITLES):
        ours = [fmean(figures[p][at]) for p in policies]
        paper = [PUBLISHED[p][at] if p in PUBLISHED else None for p in policies]
        lines += [f"| {title} | {' | '.join(policies)} |", "|---" * (len(policies) + 1) + "|"]
        lines.append(_row("paper", ["" if v is None else f"{v:.2f}" for v in paper]))
        lines.append(
            _row(
                "ours",
                [
                    f"{mean:.2f} ± {stdev(figures[p][at]):.2f}"
                    for p, mean in zip(policies, ours, strict=True)
                ],
            )
        )
        lines.append(
            _row(
                "difference",
                ["" if b is None else f"{a - b:+.2f}" for a, b in zip(ours, paper, strict=True)],
            )
        )
        lines.append("")
    return "\n".join(lines)


def _row(name: str, cells: Sequence[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |"


def main(folder: Path) -> int:
    """Print the table for the trace in `folder`. Returns 1 if it differs too much from the
    published table.
    """
    nodes = read_nodes(folder / "openb_node_list_gpu_node.csv.gz")
    jobs = read_jobs(folder / "openb_pod_list_default.csv.gz")
    policies = [*PUBLISHED, *BESIDE]

    def report(policy: str) -> None:
        if sys.stderr.isatty():
            print(f"{policy} is done", file=sys.stderr)

    figures = measure(nodes, jobs, policies, SEEDS, report)
    away = [abs(d) for d in differences(figures)]
    print(table(figures))
    print(
        f"Seeds {SEEDS[0]} to {SEEDS[-1]}: the largest difference is {max(away):.2f} points (at "
        f"most {CELL_LIMIT}), the mean {fmean(away):.2f} (at most {MEAN_LIMIT})."
    )
    return int(max(away) > CELL_LIMIT or fmean(away) > MEAN_LIMIT)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
