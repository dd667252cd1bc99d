"""Compares node policies on traces, and prints the results as Markdown. If the folder has the
published traces, policies are measured on these; otherwise on forms made from `default`. The traces
are divided into two halves by their names. The constants of the policy `scarcity` are chosen on one
half, and judged on the other half.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from statistics import fmean, stdev

from phalanx.scheduler.placement.fragmentation import scarcity
from phalanx_research.arrival.experiment import run_arrivals
from phalanx_research.arrival.reproduce import INFLATE
from phalanx_research.arrival.synthetic import FORMS, synthetic_jobs
from phalanx_research.arrival.workload import draw_workload
from phalanx_research.traces.reading import read_jobs, read_nodes
from phalanx_research.traces.records import TraceJob, TraceNode

POLICIES = ("firstfit", "fgd", "scarcity")
HALVES = ("choosing", "judging")
TRACE_SEED = 1
END = 1.005
"""The requested fraction of the GPUs at which the measurement "at 100 %" ends."""
_PREFIX = "openb_pod_list_"

Traces = Mapping[str, Sequence[TraceJob]]


def allocated(
    nodes: Sequence[TraceNode], jobs: Sequence[TraceJob], policy: str, seed: int
) -> float:
    """Return the percentage of GPUs in use at the time when pods have requested 100 %."""
    workload = draw_workload(nodes, jobs, inflate=INFLATE, seed=seed)
    limit = END * 1000 * sum(node.gpus for node in nodes)
    asked = accumulate(shape.milli for shape in workload.arrivals)
    arrivals = workload.arrivals[: sum(milli <= limit for milli in asked)]
    run = run_arrivals(replace(workload, arrivals=arrivals), policy, seed=seed)
    return run.at(run.alloc_pct, 100) or 0.0


def half_of(names: Sequence[str], half: str) -> list[str]:
    """Return one half of the names.

    The names are ordered by their SHA-256. The first half is for choosing constants, the second
    half for judging them.
    """
    ordered = sorted(names, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    middle = (len(ordered) + 1) // 2
    return sorted(ordered[:middle] if half == HALVES[0] else ordered[middle:])


def traces_in(folder: Path, nodes: Sequence[TraceNode]) -> Traces:
    """Return the published traces by name; if `folder` has only `default`, return synthetic
    traces.
    """
    found = {path.name: path for path in sorted(folder.glob(f"{_PREFIX}*.csv*"))}
    published = {
        name.removeprefix(_PREFIX).partition(".csv")[0]: path for name, path in found.items()
    }
    if len(published) > 1:
        return {name: read_jobs(path) for name, path in published.items()}
    default = read_jobs(published["default"])
    made = {form: synthetic_jobs(form, nodes, default, seed=TRACE_SEED) for form in FORMS}
    return {"default": default, **made}


def with_constants(text: str) -> None:
    """Set constants of `scarcity`, such as "POWER=0.7,COMMON_PART=1". Raises ValueError."""
    for assignment in filter(None, text.split(",")):
        name, _, value = assignment.partition("=")
        if not isinstance(getattr(scarcity, name, None), (int, float)):
            raise ValueError(f"scarcity has no constant {name!r}")
        setattr(scarcity, name, float(value))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print one row for each trace. Returns 1 if another policy has a better mean than scarcity on
    any trace.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "folder", type=Path, help="folder with the nodes and pods of the openb cluster"
    )
    parser.add_argument("--seeds", default="42", help="one seed, or a range first-last")
    parser.add_argument(
        "--policies",
        default=",".join(POLICIES),
        help="policies to compare; the last must be scarcity",
    )
    parser.add_argument("--half", choices=HALVES, help="measure only these traces")
    parser.add_argument("--constants", default="", help="constants of scarcity: NAME=VALUE,...")
    options = parser.parse_args(arguments)
    with_constants(options.constants)
    first, _, last = options.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    nodes = read_nodes(next(options.folder.glob("openb_node_list_gpu_node.csv*")))
    traces = traces_in(options.folder, nodes)
    names = list(traces) if options.half is None else half_of(list(traces), options.half)
    policies = options.policies.split(",")
    print(f"| trace | {' | '.join(policies)} | ahead by |")
    print("|---" * (len(policies) + 2) + "|")
    behind = 0
    for name in names:
        figures = [
            [allocated(nodes, traces[name], policy, seed) for seed in seeds] for policy in policies
        ]
        best = max(figures[:-1], key=fmean)
        ahead = [ours - other for ours, other in zip(figures[-1], best, strict=True)]
        behind += fmean(ahead) <= 0
        cells = " | ".join(map(_mean, figures))
        print(f"| {name} | {cells} | {_mean(ahead, sign='+')} |", flush=True)
    return int(behind > 0)


def _mean(values: Sequence[float], sign: str = "") -> str:
    """Return the mean as text, followed by the deviation of single seeds if there are several."""
    spread = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
    return f"{fmean(values):{sign}.2f}{spread}"


if __name__ == "__main__":
    sys.exit(main())
