"""Rows of memory: of an idle worker, of many tasks at once, and of very many tasks one after
another.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import psutil

from phalanx_benchmarks.measure import Effort
from phalanx_benchmarks.row import Api, Row
from phalanx_benchmarks.rows.tasks import small_task

MIB = 1024 * 1024
AT_ONCE = 100_000
IN_A_ROW = 1_000_000
BATCH = 10_000


def _idle_worker(api: Api, effort: Effort) -> list[float]:
    """Return the private memory (USS) of each worker that has run a task and is idle."""

    def my_pid() -> int:
        time.sleep(0.3)  # long enough for the tasks to spread over all workers
        return os.getpid()

    task = api.remote(my_pid)
    pids = sorted(set(api.get([task.remote() for _ in range(os.cpu_count() or 1)])))
    return [psutil.Process(pid).memory_full_info().uss / MIB for pid in pids]


def _peak_rss() -> float:
    """Return the peak of this process's resident memory, in MiB (Linux)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("/proc/self/status has no VmHWM line")


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _at_once(api: Api, effort: Effort) -> list[float]:
    task = small_task(api)
    api.get([task.remote() for _ in range(1000)])
    _forget_peak()
    before = _peak_rss()
    api.get([task.remote() for _ in range(AT_ONCE)])
    return [_peak_rss() - before]


def _in_a_row(api: Api, effort: Effort) -> list[float]:
    """Return the growth of the driver's memory in MiB, from the first tenth of the tasks to the
    last task. Quick runs have a tenth of the tasks.
    """
    task = small_task(api)
    total = int(IN_A_ROW * effort.scale)
    process = psutil.Process()
    before = 0
    for done in range(0, total, BATCH):
        if done <= total // 10:
            before = process.memory_info().rss
        api.get([task.remote() for _ in range(BATCH)])
    return [max(0.0, (process.memory_info().rss - before) / MIB)]


ROWS = (
    Row(
        name="private memory of an idle worker",
        unit="MiB",
        sample=_idle_worker,
        group="memory",
        more_is_better=False,
    ),
    Row(
        name="driver growth, 100,000 tasks at once",
        unit="MiB",
        sample=_at_once,
        group="memory",
        more_is_better=False,
    ),
    Row(
        name="driver growth over one million tasks",
        unit="MiB",
        sample=_in_a_row,
        group="memory",
        peers=False,  # at Ray's rate, this row alone would take the peer many minutes
        more_is_better=False,
    ),
)
