"""Arrays of short commands, measured on real processes.

`run(clock)` measures this. An array of commands that do nothing, `/bin/true`, runs on a node that
declares two CPUs, and on a node that declares sixteen. The head's store is an SQLite file. The
peers are xargs with the same number of processes and, if installed, GNU parallel and HyperQueue.
The programs run alternately in several rounds, so that other work on the machine affects all of
them equally. A row has each program's median and spread, and the medians of the rounds' ratios of
the array's speed to that of each peer. The rates of each round go to standard error when it ends.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import phalanx

Clock = Callable[[], float]
Row = dict[str, Any]

COMMAND = "/bin/true"
COUNT = 2000
ROUNDS = 5
CPUS = (2, 16)
_PATIENCE_S = 600.0
_PARTS = {"parallel": 5, "hyperqueue": 2}
"""Programs that run only this part of the commands, because they take long. Their rate hardly
depends on the number of commands.
"""


def run(clock: Clock, count: int = COUNT, rounds: int = ROUNDS) -> list[Row]:
    """Return one row for each number of CPUs, with the commands per second of each program."""
    programs = {"array": _array, "xargs": _xargs}
    if shutil.which("parallel") is not None:
        programs["parallel"] = _parallel
    if importlib.util.find_spec("hyperqueue") is not None:
        programs["hyperqueue"] = _hyperqueue
    rows = []
    for cpus in CPUS:
        rates: dict[str, list[float]] = {name: [] for name in programs}
        for number in range(1, rounds + 1):
            for name, program in programs.items():
                given = count // _PARTS.get(name, 1)
                rates[name].append(given / program(clock, given, cpus))
            seen = ", ".join(f"{name} {found[-1]:,.0f}" for name, found in rates.items())
            print(f"{cpus} CPUs, round {number} of {rounds}: {seen} a second", file=sys.stderr)
        row: Row = {"what": f"{count:,} commands, {cpus} CPUs"}
        for name, found in rates.items():
            row[f"{name} per s"] = median(found)
            row[f"{name} from"], row[f"{name} to"] = min(found), max(found)
        for name in [name for name in programs if name != "array"]:
            pairs = zip(rates["array"], rates[name], strict=True)
            row[f"array : {name}"] = median(ours / theirs for ours, theirs in pairs)
        rows.append(row)
    return rows


def _array(clock: Clock, count: int, cpus: int) -> float:
    from phalanx.cluster_utils import Cluster

    directory = tempfile.mkdtemp(prefix="phx-")
    cluster = Cluster(store=os.path.join(directory, "store.db"))
    try:
        cluster.add_node(num_cpus=cpus)
        cluster.connect()
        phalanx.submit(phalanx.Job([COMMAND], name="warm", working_dir="/")).wait(_PATIENCE_S)
        job = phalanx.Job([COMMAND], name="array", working_dir="/", array=f"0-{count - 1}")
        begun = clock()
        phalanx.submit(job).wait(_PATIENCE_S)
        return clock() - begun
    finally:
        cluster.shutdown()
        shutil.rmtree(directory, ignore_errors=True)


def _xargs(clock: Clock, count: int, cpus: int) -> float:
    given = "\n".join(map(str, range(count)))
    begun = clock()
    subprocess.run(["xargs", f"-P{cpus}", "-n1", COMMAND], input=given, text=True, check=True)
    return clock() - begun


def _parallel(clock: Clock, count: int, cpus: int) -> float:
    given = "\n".join(map(str, range(count)))
    begun = clock()
    # the program's notice about citations goes to standard error
    words = ["parallel", f"-j{cpus}", COMMAND]
    subprocess.run(words, input=given, text=True, check=True, stderr=subprocess.DEVNULL)
    return clock() - begun


def _hyperqueue(clock: Clock, count: int, cpus: int) -> float:
    from hyperqueue import Job, LocalCluster
    from hyperqueue.cluster import WorkerConfig

    # HyperQueue writes two files for each command into the current directory.
    with (
        tempfile.TemporaryDirectory() as here,
        contextlib.chdir(here),
        _quiet(),
        LocalCluster() as cluster,
    ):
        cluster.start_worker(WorkerConfig(cores=cpus))
        client = cluster.client()
        warm, job = Job(), Job()
        warm.program([COMMAND])
        client.wait_for_jobs([client.submit(warm)])
        for _ in range(count):
            job.program([COMMAND])
        begun = clock()
        client.wait_for_jobs([client.submit(job)])
        return clock() - begun


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Until the block ends, discard what this process and its children print, such as a progress
    bar.
    """
    sys.stdout.flush()
    kept = [os.dup(fd) for fd in (1, 2)]
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        for fd in (1, 2):
            os.dup2(nothing, fd)
        yield
    finally:
        sys.stderr.flush()
        for fd, old in zip((1, 2), kept, strict=True):
            os.dup2(old, fd)
            os.close(old)
        os.close(nothing)
