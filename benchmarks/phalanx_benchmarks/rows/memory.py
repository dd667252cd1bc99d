"""Rows of memory: of an idle session and its parts, of nodes, actors, waiting tasks and waiting
jobs, of many tasks at once, and of very many tasks one after another.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from phalanx_benchmarks.measure import Effort
from phalanx_benchmarks.process_memory import MIB, mark, processes, pss, uss
from phalanx_benchmarks.row import Api, Row, start
from phalanx_benchmarks.rows.clusters import add_nodes, cluster_of
from phalanx_benchmarks.rows.tasks import small_task

AT_ONCE = 100_000
AFTER = 100_000
QUEUED = 1_000_000
ACTORS = 16
"""The number of actors: many more than the idle workers, which become actors without a new
process.
"""
NODES = 3
JOBS = 10_000
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
    _settle()
    before = pss(processes())
    actors = [kind.options(num_cpus=0).remote() for _ in range(ACTORS)]
    api.get([actor.pid.remote() for actor in actors])
    _settle()
    return [(pss(processes()) - before) / ACTORS]


def _settle() -> None:
    """Wait until no process has begun or ended for a second, 20 seconds at most.

    A node starts idle workers in place of those that became actors. Some of them end again.
    """
    seen, since, until = {*processes()}, time.monotonic(), time.monotonic() + 20.0
    while time.monotonic() < min(since + 1.0, until):
        time.sleep(0.1)
        if (now := {*processes()}) != seen:
            seen, since = now, time.monotonic()


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


def _a_node(api: Api, effort: Effort) -> list[float]:
    """Return the growth of the memory (PSS) of all processes for each further node, which has one
    CPU and runs nothing.
    """
    mark()
    with cluster_of(api, 1, num_cpus=1) as cluster:
        before = pss(processes())
        add_nodes(cluster, NODES, num_cpus=1)
        cluster.wait_for_nodes()
        return [(pss(processes()) - before) / NODES]


def _head_with_jobs(api: Api, effort: Effort) -> list[float]:
    """Return the memory (PSS) of a head in whose queue jobs wait, each a command. Quick runs have a
    tenth of the jobs.
    """
    from phalanx.cluster_utils import Cluster

    cluster = Cluster()
    try:
        cluster.add_node(num_cpus=1)
        cluster.connect()
        assert cluster.head_pid is not None
        for number in range(int(JOBS * effort.scale) + 1):
            api.submit(api.Job(["sleep", "3600"], name=f"job-{number}", working_dir="/"))
        return [pss([cluster.head_pid])]
    finally:
        api.shutdown()
        cluster.shutdown()


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


def _memory(
    name: str,
    sample: Callable[[Api, Effort], list[float]],
    *,
    unit: str = "MiB",
    session: bool = False,
    peers: bool = True,
    most_rounds: int | None = None,
) -> Row:
    """Return a row of memory. Most samples start a session of their own, to mark its processes."""
    return Row(
        name=name,
        unit=unit,
        sample=sample,
        group="memory",
        session=session,
        peers=peers,
        more_is_better=False,
        most_rounds=most_rounds,
    )


# Rows with `peers=False` would take Ray many minutes at its rate, or hours.
ROWS = (
    _memory("memory, idle: all processes of a session", _idle),
    _memory("memory of the daemons of an idle session", _daemons),
    _memory("memory of a further node", _a_node, most_rounds=3),
    _memory("memory of an actor", _an_actor),
    _memory("memory, 100,000 tasks done: all processes of a session", _after, most_rounds=3),
    _memory(
        "memory of the driver for each of a million queued tasks",
        _queued,
        unit="B",
        peers=False,
        most_rounds=3,
    ),
    _memory(
        "memory of a head with 10,000 jobs that wait", _head_with_jobs, peers=False, most_rounds=3
    ),
    _memory("private memory of an idle worker", _idle_worker, session=True),
    _memory("driver growth, 100,000 tasks at once", _at_once, session=True),
    _memory("driver growth over one million tasks", _in_a_row, session=True, peers=False),
)
