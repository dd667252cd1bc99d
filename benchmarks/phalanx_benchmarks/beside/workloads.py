"""Compares random workloads of short jobs in real time, on real Slurm and on Phalanx. Both sides
get the same jobs at the same moments. Each job records when it began and ended, so one clock
measures both sides, including everything between a submission and a start.
"""

from __future__ import annotations

import json
import math
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from phalanx_benchmarks.beside.phalanx_cluster import PhalanxCluster
from phalanx_benchmarks.beside.slurm_cluster import SlurmCluster

NODES, CPUS = 4, 4
LONGEST_S = 240.0
"""Seconds after which a run ends even if jobs are left."""
_OUTLOOK_S = 3.0
"""Seconds after the last submission after which the expected starts are read."""


class DrawnJob(NamedTuple):
    """A job of a workload. It takes `cpus` on each of `nodes` nodes."""

    at_s: float
    nodes: int
    cpus: int
    runs_s: float
    limit_s: int

    def words(self, number: int, directory: str, *, in_minutes: bool) -> list[str]:
        """Return the arguments of sbatch."""
        limit = str(math.ceil(self.limit_s / 60)) if in_minutes else f"0:{self.limit_s}"
        mark = f"{directory}/{number}"
        script = f"date +%s.%N > {mark}.begin; sleep {self.runs_s}; date +%s.%N > {mark}.end"
        return [
            f"--nodes={self.nodes}", f"--ntasks-per-node={self.cpus}", f"--time={limit}",
            f"--job-name=w{number}", "--output=/dev/null", f"--wrap={script}",
        ]  # fmt: skip


class Outcome(NamedTuple):
    """The figures of one workload on one side."""

    makespan_s: float
    waits_s: list[float]
    utilisation: float
    start_errors_s: list[float]
    """The differences between actual starts and the starts expected shortly after the last
    submission.
    """
    lost: int
    """The number of jobs that did not run to their end."""

    @property
    def mean_s(self) -> float:
        return statistics.fmean(self.waits_s)

    @property
    def p95_s(self) -> float:
        return sorted(self.waits_s)[math.ceil(0.95 * len(self.waits_s)) - 1]


class Pair(NamedTuple):
    """The figures of both sides for the workload of one seed."""

    seed: int
    theirs: Outcome
    ours: Outcome


def drawn(seed: int, count: int = 60) -> list[DrawnJob]:
    """Draw a workload. Jobs run 0.5 to 6 s on one to four nodes. Time limits are exact or
    too long.
    """
    draw = random.Random(f"workload {seed}")
    jobs, at = [], 0.0
    for _ in range(count):
        at += draw.expovariate(1 / 0.25)
        runs_s = round(math.exp(draw.uniform(math.log(0.5), math.log(6.0))), 2)
        nodes = draw.choice((1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4))
        cpus = draw.choice((1, 1, 2, 4)) if nodes == 1 else draw.choice((2, 4))
        exact = math.ceil(runs_s) + 2  # below this, limits end jobs that are slightly late
        limit_s = exact if draw.random() < 0.5 else min(exact * draw.randint(2, 8), 59)
        jobs.append(DrawnJob(at, nodes, cpus, runs_s, limit_s))
    return jobs


def run_on(side: SlurmCluster | PhalanxCluster, jobs: Sequence[DrawnJob]) -> Outcome:
    """Run a workload on one side."""
    with tempfile.TemporaryDirectory(prefix="bw-", dir="/tmp") as directory:
        is_slurm = isinstance(side, SlurmCluster)
        submitted: dict[int, float] = {}
        submit, close = _slurm(side) if is_slurm else _phalanx(side)
        begun = time.time()
        for number, job in enumerate(jobs):
            time.sleep(max(begun + job.at_s - time.time(), 0.0))
            submitted[number] = time.time()
            submit(job.words(number, directory, in_minutes=is_slurm))
        time.sleep(_OUTLOOK_S)
        expected = _expected(side)
        ends = _wait_for_all(Path(directory), len(jobs))
        close()
        side.settle()
        begins = {number: _moment(Path(directory, f"{number}.begin")) for number in submitted}
    starts = {number: at for number, at in begins.items() if at is not None}
    last = max(ends.values(), default=begun)
    work = sum(jobs[number].nodes * jobs[number].cpus * jobs[number].runs_s for number in ends)
    return Outcome(
        makespan_s=last - begun,
        waits_s=[starts[number] - submitted[number] for number in starts],
        utilisation=work / (NODES * CPUS * (last - begun)),
        start_errors_s=[starts[n] - at for n, at in expected.items() if n in starts],
        lost=len(jobs) - len(ends),
    )


Submit = Callable[[list[str]], None]


def _slurm(side: SlurmCluster | PhalanxCluster) -> tuple[Submit, Callable[[], None]]:
    def submit(words: list[str]) -> None:
        side.done(shlex.join(["sbatch", *words]))

    return submit, lambda: None


def _phalanx(side: SlurmCluster | PhalanxCluster) -> tuple[Submit, Callable[[], None]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "phalanx_benchmarks.beside.submitter"], env=side.env, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    into, out = process.stdin, process.stdout

    def submit(words: list[str]) -> None:
        into.write(json.dumps(words) + "\n")
        into.flush()
        said = out.readline()
        if not said.startswith("Submitted"):
            raise RuntimeError(f"sbatch: {said}")

    def close() -> None:
        into.close()
        process.wait()
        out.close()

    return submit, close


def _expected(side: SlurmCluster | PhalanxCluster) -> dict[int, float]:
    """Return the expected starts of waiting jobs, by the jobs' numbers in the workload."""
    found = {}
    for line in side.run("squeue --start -h -o '%j %S'").stdout.splitlines():
        name, _, moment = line.partition(" ")
        if moment[:2] == "20":
            found[int(name.removeprefix("w"))] = datetime.fromisoformat(moment).timestamp()
    return found


def _wait_for_all(directory: Path, count: int) -> dict[int, float]:
    """Return the time at which each job ended, by the job's number. Jobs that a time limit ended
    are left out.
    """
    until = time.monotonic() + LONGEST_S
    while time.monotonic() < until and len(list(directory.glob("*.end"))) < count:
        time.sleep(0.3)
    time.sleep(0.3)
    found = {number: _moment(directory / f"{number}.end") for number in range(count)}
    return {number: at for number, at in found.items() if at is not None}


def _moment(path: Path) -> float | None:
    try:
        return float(path.read_text())
    except (OSError, ValueError):
        return None


def compare(
    real: SlurmCluster, ours: PhalanxCluster, seeds: Sequence[int], told: Callable[[str], None]
) -> list[Pair]:
    """Run the workload of each seed on both sides. The starting side alternates."""
    found = []
    for place, seed in enumerate(seeds):
        jobs = drawn(seed)
        sides: list[SlurmCluster | PhalanxCluster] = [real, ours]
        outcomes = {side.name: run_on(side, jobs) for side in (sides[:: -1 if place % 2 else 1])}
        theirs, mine = outcomes[real.name], outcomes[ours.name]
        found.append(Pair(seed, theirs, mine))
        told(line_of(seed, theirs, mine))
    return found


def line_of(seed: int, theirs: Outcome, ours: Outcome) -> str:
    """Return the figures of both sides as a line of text."""
    return f"workload {seed}: " + "; ".join(
        f"{name} makespan {one.makespan_s:.1f} s, wait {one.mean_s:.1f} s (p95 {one.p95_s:.1f}),"
        f" utilisation {one.utilisation:.0%}, {_errors(one.start_errors_s)}"
        + (f", {one.lost} lost" if one.lost else "")
        for name, one in (("slurm", theirs), ("phalanx", ours))
    )


def _errors(errors: Sequence[float]) -> str:
    if not errors:
        return "no start expected"
    middle, latest = statistics.median(errors), max(errors)
    return f"{len(errors)} expected starts, real ones at {middle:+.1f} s (latest {latest:+.1f} s)"


def summary(found: Sequence[Pair]) -> str:
    """Return the medians over all workloads, each with the smallest and the largest value."""
    of: Mapping[str, Callable[[Outcome], float]] = {
        "makespan": lambda one: one.makespan_s,
        "mean wait": lambda one: one.mean_s,
        "p95 wait": lambda one: one.p95_s,
        "utilisation": lambda one: 100 * one.utilisation,
    }
    lines = []
    for name, read in of.items():
        sides = [read(row.theirs) for row in found], [read(row.ours) for row in found]
        ratios = [mine / theirs for theirs, mine in zip(*sides, strict=True) if theirs]
        lines.append(
            f"{name:<12} slurm {_spread(sides[0])}, phalanx {_spread(sides[1])},"
            f" ratio {_spread(ratios)}"
        )
    for name, outcomes in (
        ("slurm", [row.theirs for row in found]),
        ("phalanx", [row.ours for row in found]),
    ):
        errors = [error for one in outcomes for error in one.start_errors_s]
        lines.append(f"{name:<12} {_errors(errors)}")
    return "\n".join(lines)


def _spread(numbers: Sequence[float]) -> str:
    return f"{statistics.median(numbers):.2f} [{min(numbers):.2f}, {max(numbers):.2f}]"
