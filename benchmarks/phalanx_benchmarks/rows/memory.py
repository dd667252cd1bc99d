"""Rows of memory: of an idle session and its parts, of an actor, of waiting tasks, of many tasks at
once, and of very many tasks one after another.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import psutil

from phalanx_benchmarks.measure import Effort
from phalanx_benchmarks.process_memory import MIB, mark, processes, pss, uss
from phalanx_benchmarks.row import Api, Row, start
from phalanx_benchmarks.rows.tasks import small_task

AT_ONCE = 100_000
AFTER = 100_000
QUEUED = 1_000_000
ACTORS = 4
IN_A_ROW = 1_000_000
BATCH = 10_000


def _workers(api: Api) -> list[int]:
    """Return the processes of all workers, each of which has run a task."""

    def my_pid() -> int:
        time.sleep(0.3)  # long enough for the tasks to spread over all workers
        return os.getpid()

    task = api.remote(my_pid)
    return sorted(set(api.get([task.remote() for _ in range(os.cpu_count() or 1)])))


def _idle_worker(api: Api, effort: Effort) -> list[float]:
    """Return the private memory (USS) of each worker that has run a task and is idle."""
    return [uss(pid) for pid in _workers(api)]


def _session(api: Api) -> list[int]:
    """Start a session with a worker on each CPU. Returns the processes of the workers."""
    mark()
    start(api)
    return _workers(api)


def _idle(api: Api, effort: Effort) -> list[float]:
    """Return the memory (PSS) of all processes of an idle session."""
    _session(api)
    return [pss(processes())]


def _daemons(api: Api, effort: Effort) -> list[float]:
    """Return the memory (PSS) of all processes except the driver and the workers."""
    not_counted = {os.getpid(), *_session(api)}
    return [pss([pid for pid in processes() if not (pid in not_counted or _is_worker_of_ray(pid))])]


def _is_worker_of_ray(pid: int) -> bool:
    """Whether a process is one of the workers that Ray starts before it needs them."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::")
    except OSError:
        return False


def _an_actor(api: Api, effort: Effort) -> list[float]:
    """Return the growth of the memory (PSS) of all processes for each further actor."""

    class Idle:
        def pid(self) -> int:
            return os.getpid()

    _session(api)
    kind = api.remote(Idle)
    first = [kind.options(num_cpus=0).remote()]
    api.get([actor.pid.remote() for actor in first])
    before = pss(processes())
    actors = [kind.options(num_cpus=0).remote() for _ in range(ACTORS)]
    api.get([actor.pid.remote() for actor in actors])
    return [(pss(processes()) - before) / ACTORS]


def _after(api: Api, effort: Effort) -> list[float]:
    """Return the memory (PSS) of all processes while the driver holds the results of all tasks.
    Quick runs have a tenth of the tasks.
    """
    _session(api)
    task = small_task(api)
    refs = [task.remote() for _ in range(int(AFTER * effort.scale))]
    api.get(refs)
    return [pss(processes())]


def _queued(api: Api, effort: Effort) -> list[float]:
    """Return the bytes of private memory (USS) of the driver for each task that waits for CPUs that
    another task holds. Quick runs have a tenth of the tasks.
    """

    def hold(seconds: float) -> None:
        time.sleep(seconds)

    mark()
    start(api)
    task = small_task(api)
    api.get([task.remote() for _ in range(1000)])
    held = api.remote(hold).options(num_cpus=os.cpu_count()).remote(3600.0)
    total = int(QUEUED * effort.scale)
    before = uss(os.getpid())
    refs = [task.remote() for _ in range(total)]
    grown = uss(os.getpid()) - before
    api.cancel(held, force=True)
    del refs
    return [grown * MIB / total]


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
        name="memory, idle: all processes of a session",
        unit="MiB",
        sample=_idle,
        group="memory",
        session=False,
        more_is_better=False,
    ),
    Row(
        name="memory of the daemons of an idle session",
        unit="MiB",
        sample=_daemons,
        group="memory",
        session=False,
        more_is_better=False,
    ),
    Row(
        name="memory of an actor",
        unit="MiB",
        sample=_an_actor,
        group="memory",
        session=False,
        more_is_better=False,
    ),
    Row(
        name="memory, 100,000 tasks done: all processes of a session",
        unit="MiB",
        sample=_after,
        group="memory",
        session=False,
        more_is_better=False,
        most_rounds=3,
    ),
    Row(
        name="memory of a queued task, of a million",
        unit="B",
        sample=_queued,
        group="memory",
        session=False,
        peers=False,  # at Ray's rate, this row alone would take the peer many minutes
        more_is_better=False,
        most_rounds=3,
    ),
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
