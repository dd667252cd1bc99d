"""The cost of counting a program's tasks for metrics, and of recording them for listings.

`run(clock)` measures this. One program runs batches of empty tasks in three ways alternately: as
usual, without the counts for metrics, and without both the counts and the records for listings. The
measure is the CPU time of the program's process, which counts and records. Other work on the
machine can only make a batch more expensive, and affects all three ways equally. Therefore a row
shows the lower quartile of the batches of each way. The time for counting is also measured
directly, in the same batches.
"""

from __future__ import annotations

import os
import random
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from statistics import quantiles
from typing import Any

import phalanx
from phalanx.api.session import running_engine
from phalanx.owner.metrics import OwnerMetrics

TURNS, BATCH = 200, 2_000
USUAL, UNCOUNTED, UNRECORDED = "as always", "without metrics", "without metrics and listings"


class _Timed:
    """Metrics that count as usual, and measure how long counting takes in this thread."""

    def __init__(self, counts: OwnerMetrics) -> None:
        self._counts = counts
        self.took_s = 0.0

    def tick(self, now: float) -> None:
        """Count an update that is due by time, and measure how long that takes."""
        begun = time.thread_time()
        self._counts.tick(now)
        self.took_s += time.thread_time() - begun

    def say(self) -> None:
        """Count a report, and measure how long that takes."""
        begun = time.thread_time()
        self._counts.say()
        self.took_s += time.thread_time() - begun


def nothing() -> None:
    """Do nothing. This is the measured task."""


def _pid() -> int:
    return os.getpid()


def run(clock: Callable[[], float]) -> list[dict[str, Any]]:
    """Return the rows: the CPU time of a task in each way, and the time that each way saves.

    `clock` is not used, because it would include the time of other programs.
    """
    phalanx.init(num_cpus=1, include_dashboard=False)
    try:
        costs, share, of_worker = _measured()
    finally:
        phalanx.shutdown()
    usual = costs[USUAL]
    rows: list[dict[str, Any]] = [
        {"what": way, "us a task": 1e6 * cost, "saved %": 100 * (1 - cost / usual)}
        for way, cost in costs.items()
    ]
    rows += [
        {"what": "counting, timed by itself", "us a task": 1e6 * share * usual},
        {"what": "the worker, as always", "us a task": 1e6 * of_worker},
    ]
    rows[-2]["saved %"] = 100 * share
    return [{**row, "of both %": row["us a task"] / (usual + of_worker) / 1e4} for row in rows]


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _measured() -> tuple[dict[str, float], float, float]:
    """Return the CPU seconds of a task in each way, the seconds of counting itself, and the cost of
    a task for its worker.
    """
    owner: Any = running_engine().runtime.owner  # type: ignore[attr-defined]
    journal, counts = owner.journal, _Timed(owner.counts)
    task = phalanx.remote(nothing)
    worker = phalanx.get(phalanx.remote(_pid).remote())
    worked_s = 0.0
    order, rng = [USUAL, UNCOUNTED, UNRECORDED], random.Random(1)
    costs: dict[str, list[float]] = {way: [] for way in order}
    for turn in range(-2, TURNS):  # the first two batches start a worker
        rng.shuffle(order)
        for way in order:
            kept = (journal._transitions, journal._runs, journal._uncounted)
            owner.counts = counts if way == USUAL else None
            if way == UNRECORDED:
                nowhere: deque[Any] = deque(maxlen=0)
                journal._transitions = journal._runs = journal._uncounted = nowhere
            begun, before = time.process_time(), _cpu_s(worker)
            phalanx.get([task.remote() for _ in range(BATCH)])
            if way == USUAL:
                counts.tick(0.0)  # the remaining updates are counted, too
            cost = time.process_time() - begun
            worked_s += _cpu_s(worker) - before
            journal._transitions, journal._runs, journal._uncounted = kept
            journal.take_uncounted()
            if turn >= 0:
                costs[way].append(cost)
            else:
                counts.took_s = worked_s = 0.0
    share = counts.took_s / sum(costs[USUAL])
    lower = {way: quantiles(of_way, n=4)[0] / BATCH for way, of_way in costs.items()}
    return lower, share, worked_s / (TURNS * len(order) * BATCH)
