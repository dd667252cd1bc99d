"""Compares node policies where pods arrive and end, and prints a table as Markdown.

    python -m phalanx_research.departures examples/traces --seeds 42-51 --kept FOLDER

With `--kept`, the figures of each seed and policy are kept in a folder, and a later call with the
same options only makes the runs whose figures are missing there.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean, stdev

import msgspec
import numpy as np

from phalanx_research.departures.bound import bound_pct
from phalanx_research.departures.clusters import POOLED
from phalanx_research.departures.picture import picture
from phalanx_research.departures.replay import run_replay
from phalanx_research.departures.workload import Replay, draw_replay
from phalanx_research.traces.reading import read_jobs, read_nodes

POLICIES = ("bestfit", "fgd", "scarcity", "fgd+demand", "fgd+foreseen", "fgd+moves", POOLED)
BASE, BOUND = "fgd", "bound"
PART, LOAD, GANGS = 0.05, 1.1, 0.2
HEAD = (
    *("policy", "GPUs in use, %", "of the way from fgd to the bound", "mean wait, s"),
    *("p99 wait, s", "gangs: mean wait, s", "gangs: p90 wait, s", "moved pods"),
)


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one run, or of the bound, which has only the first figure."""

    alloc_pct: float
    over_time: tuple[float, ...] = ()
    wait_s: float = 0.0
    wait_p99_s: float = 0.0
    gang_wait_s: float = 0.0
    gang_wait_p90_s: float = 0.0
    moves: int = 0


def measured(replay: Replay, policy: str) -> Measured:
    """Run a workload under a policy, or compute the bound."""
    if policy == BOUND:
        return Measured(alloc_pct=bound_pct(replay))
    run = run_replay(replay, policy)
    return Measured(
        alloc_pct=run.alloc_pct,
        over_time=run.over_time,
        wait_s=fmean(run.waits_s),
        wait_p99_s=float(np.quantile(run.waits_s, 0.99)),
        gang_wait_s=fmean(run.gang_waits_s),
        gang_wait_p90_s=float(np.quantile(run.gang_waits_s, 0.9)),
        moves=run.moves,
    )


class Kept:
    """The figures that earlier calls with the same options have kept. `folder`: the place of the
    figures; None if no figures are kept.
    """

    def __init__(self, folder: Path | None, options: str) -> None:
        self._folder = folder
        self._mark = hashlib.sha256(options.encode()).hexdigest()[:12]

    def get(self, seed: int, policy: str, make: Callable[[], Measured]) -> Measured:
        """Return the figures of a seed and policy."""
        if self._folder is None:
            return make()
        file = self._folder / f"{self._mark}-{seed}-{policy}.json"
        if file.exists():
            return msgspec.json.decode(file.read_bytes(), type=Measured)
        found = make()
        self._folder.mkdir(parents=True, exist_ok=True)
        file.write_bytes(msgspec.json.encode(found))
        return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; with `--picture`, also draw the GPUs in use over time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder with the nodes and pods of the trace")
    parser.add_argument("--pods", default="openb_pod_list_default.csv", help="the file of pods")
    parser.add_argument("--seeds", default="42", help="one seed, or a range first-last")
    parser.add_argument("--policies", default=",".join(POLICIES), help="policies to compare")
    parser.add_argument("--resampled", action="store_true", help="draw pods with replacement")
    parser.add_argument("--load", type=float, default=LOAD, help="requested GPU time, 1: all GPUs")
    parser.add_argument("--gangs", type=float, default=GANGS, help="the gangs' part of GPU time")
    parser.add_argument("--part", type=float, default=PART, help="the part of the nodes")
    parser.add_argument("--kept", type=Path, help="folder in which figures are kept")
    parser.add_argument("--picture", type=Path, help="write the GPUs in use over time as SVG")
    options = parser.parse_args(arguments)
    first, _, last = options.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    nodes = read_nodes(next(options.folder.glob("openb_node_list_gpu_node.csv*")))
    jobs = read_jobs(next(options.folder.glob(f"{options.pods}*")))
    drawn = {
        "part": options.part,
        "load": options.load,
        "gangs": options.gangs,
        "resampled": options.resampled,
    }
    kept = Kept(options.kept, f"{options.pods} {drawn}")
    policies = [*options.policies.split(","), BOUND]
    found: dict[str, list[Measured]] = {policy: [] for policy in policies}
    for seed in seeds:
        draw = partial(draw_replay, nodes, jobs, seed=seed, **drawn)
        for policy in policies:
            make = partial(_made, draw, policy)
            found[policy].append(kept.get(seed, policy, make))
    print("\n".join(table(found)))
    if options.picture is not None:
        lines = {
            policy: np.mean([one.over_time for one in runs], axis=0).tolist()
            for policy, runs in found.items()
            if policy != BOUND
        }
        bound = fmean(one.alloc_pct for one in found[BOUND])
        options.picture.write_text(picture(lines, bound), encoding="utf-8")
    return 0


def _made(draw: Callable[[], Replay], policy: str) -> Measured:
    return measured(draw(), policy)


def table(found: Mapping[str, Sequence[Measured]]) -> list[str]:
    """Return the lines of the table: a row for each policy, with means and spreads over seeds."""
    lines = [f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|"]
    for policy, runs in found.items():
        way = ""
        if BASE in found:
            ways = [
                100 * (one.alloc_pct - base.alloc_pct) / (bound.alloc_pct - base.alloc_pct)
                for one, base, bound in zip(runs, found[BASE], found[BOUND], strict=True)
            ]
            way = _mean(ways, 0) + " %"
        cells = [policy, _mean([one.alloc_pct for one in runs], 2), way]
        if policy != BOUND:
            for name in ("wait_s", "wait_p99_s", "gang_wait_s", "gang_wait_p90_s", "moves"):
                cells.append(_mean([float(getattr(one, name)) for one in runs], 0))
        cells += [""] * (len(HEAD) - len(cells))
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _mean(values: Sequence[float], digits: int) -> str:
    """Return the mean as text, followed by the deviation of single seeds if there are several."""
    spread = f" ± {stdev(values):,.{digits}f}" if len(values) > 1 else ""
    return f"{fmean(values):,.{digits}f}{spread}"


if __name__ == "__main__":
    sys.exit(main())
