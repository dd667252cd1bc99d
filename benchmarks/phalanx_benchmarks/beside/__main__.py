"""Runs Phalanx beside a real system: `make beside SYSTEM=slurm`.

    python -m phalanx_benchmarks.beside slurm [--cases commands,orders,shares,backfill] [--seed N]

The real system's packages are unpacked into `--folder`, started on the loopback address, and ended
by the numbers of their processes. The exit code is 1 while a row differs that nobody has explained.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import NoReturn

from phalanx_benchmarks.beside import commands, share_cases, workloads
from phalanx_benchmarks.beside.command_cases import FILE, ORDERS, read_cases
from phalanx_benchmarks.beside.phalanx_cluster import PhalanxCluster
from phalanx_benchmarks.beside.plot import drawing
from phalanx_benchmarks.beside.rows import DIFFERS, Row, report
from phalanx_benchmarks.beside.slurm_cluster import SlurmCluster

USUAL = ("commands", "orders", "shares")
"""The cases of a plain run; `backfill` takes half an hour and is run by its name."""
TREES = 6
WORKLOADS = 10
_ORDERS = {
    "PreemptType": "preempt/partition_prio",
    "PreemptMode": "REQUEUE",
    "PriorityCalcPeriod": "1",
    "PriorityMaxAge": "1-0",
    "PriorityWeightAge": "100000",
    "PriorityWeightJobSize": "1000",
}
"""Settings with which ages and --nice count; jobs of the upper partition preempt."""
_HIGH = (
    "PartitionName=primary Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1\n"
    "PartitionName=high Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10"
)


def main() -> int:
    """Run the asked cases; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("system", choices=["slurm"])
    parser.add_argument("--cases", default=",".join(USUAL))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path(".beside"))
    parser.add_argument("--all-rows", action="store_true", help="show the rows that are the same")
    parser.add_argument("--plot", type=Path, help="write the figures of backfill as SVG")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, _end)  # which ends the daemons, too
    folder = asked.folder.resolve() / asked.system
    rows: list[Row] = []
    begun = time.monotonic()
    for name in asked.cases.split(","):
        if name == "backfill":
            _backfill(folder, asked.seed, asked.plot)
        else:
            rows += _noted(_CASES[name](folder, asked.seed), begun)
    if rows:
        print(report(rows, shows_all=asked.all_rows))
    return int(any(row.kind == DIFFERS for row in rows))


def _end(number: int, _: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _noted(found: Iterable[Row], begun: float) -> list[Row]:
    """Return the rows, and say how far the run is."""
    rows = []
    for row in found:
        rows.append(row)
        print(f"{time.monotonic() - begun:6.0f} s  {row.kind:<21} {row.name}", file=sys.stderr)
    return rows


def _commands(folder: Path, _: int) -> Iterable[Row]:
    with SlurmCluster(folder, nodes=3, gpus=4) as real, PhalanxCluster(nodes=3, gpus=4) as ours:
        yield from commands.compare(real, ours, read_cases(FILE.read_text()))


def _orders(folder: Path, _: int) -> Iterable[Row]:
    real = SlurmCluster(folder, nodes=2, settings=_ORDERS, partitions=_HIGH, has_accounts=False)
    with real, PhalanxCluster(nodes=2) as ours:
        yield from commands.compare(real, ours, read_cases(ORDERS.read_text()))


def _shares(folder: Path, seed: int) -> Iterable[Row]:
    settings, partition = share_cases.SETTINGS, share_cases.PARTITION
    with SlurmCluster(folder, settings=settings, partitions=partition) as real:
        yield from share_cases.compare_billing(real, seed)
        yield from share_cases.compare(real, seed, TREES)


def _backfill(folder: Path, seed: int, plot: Path | None) -> None:
    """Run ten workloads on both sides, in turns, print their figures, and draw them."""
    nodes, cpus = workloads.NODES, workloads.CPUS
    real = SlurmCluster(folder, nodes=nodes, cpus=cpus, has_accounts=False)
    with real, PhalanxCluster(nodes=nodes, cpus=cpus) as ours:
        seeds = range(seed, seed + WORKLOADS)
        found = workloads.compare(real, ours, seeds, lambda line: print(line, flush=True))
    print(workloads.summary(found))
    if plot is not None:
        plot.write_text(drawing(found))


_CASES: dict[str, Callable[[Path, int], Iterable[Row]]] = {
    "commands": _commands,
    "orders": _orders,
    "shares": _shares,
}

if __name__ == "__main__":
    sys.exit(main())
