"""Jobs that arrive at a steady rate, measured on real processes.

`run(clock)` measures this. The processes are a head with an SQLite file as its store, a node, this
program, and their children. Each job is a command that does nothing, `true`, on one of the 512 CPUs
that the node declares, so that there is always room. The head forgets a job a while after its end.
The program submits each job at its time, in a separate request, from a few threads. It never waits
for the end of a job. If it is late, it submits immediately. The latency of a job is the time from
the submitting call to the end that the head recorded. It is measured for one in `_ONE_IN` jobs.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from statistics import quantiles
from typing import Any

import phalanx

Clock = Callable[[], float]
Row = dict[str, Any]

RATE = 500
SECONDS = 600
KEPT_S = 30.0
"""Seconds for which the head remembers an ended job."""
_CPUS = 512
_ONE_IN = 50
_SUBMITTERS = 8
_LOOK_AFTER_S = 2.0
_LOOK_S = 0.25
PATIENCE_S = 300.0


def run(clock: Clock, rate: int = RATE, seconds: float = SECONDS) -> list[Row]:
    """Return one row: the requested rate, the achieved rate, and the cost for each process."""
    from phalanx.cluster_utils import Cluster

    directory = tempfile.mkdtemp(prefix="phx-")
    cluster = Cluster(store=os.path.join(directory, "store.db"))
    try:
        cluster.add_node(num_cpus=_CPUS)
        cluster.connect()
        _submit("warm", 0).wait(PATIENCE_S)
        assert cluster.head_pid is not None
        pids = {"head": cluster.head_pid, "node": cluster.list_all_nodes()[0].pid}
        return [_stream(clock, rate, seconds, pids)]
    finally:
        cluster.shutdown()
        shutil.rmtree(directory, ignore_errors=True)


def _submit(name: str, number: int) -> phalanx.JobHandle:
    job = phalanx.Job(["true"], name=f"{name}-{number}", working_dir="/", ttl_s=KEPT_S)
    return phalanx.submit(job)


def _stream(clock: Clock, rate: int, seconds: float, pids: dict[str, int]) -> Row:
    before = _cpu_s(pids)
    sampled: deque[tuple[float, phalanx.JobHandle]] = deque()
    latencies: list[float] = []
    most_in_flight = 0
    count = round(rate * seconds)
    numbers = iter(range(count))
    begun = clock()

    def submit_in_turn() -> None:
        # next() of a range's iterator is atomic, so no two threads get the same number
        for number in numbers:
            pause_s = begun + number / rate - clock()
            if pause_s > 0:
                time.sleep(pause_s)
            asked = time.time()
            handle = _submit("job", number)
            if number % _ONE_IN == 0:
                sampled.append((asked, handle))

    with ThreadPoolExecutor(_SUBMITTERS) as threads:
        submitting = [threads.submit(submit_in_turn) for _ in range(_SUBMITTERS)]
        while not all(one.done() for one in submitting):
            time.sleep(_LOOK_S)
            most_in_flight = max(most_in_flight, _in_flight())
            _look(sampled, latencies)
    for one in submitting:
        one.result()
    submitted_s = clock() - begun
    while _in_flight():
        time.sleep(_LOOK_S)
        if clock() - begun > submitted_s + PATIENCE_S:
            raise TimeoutError(f"{_in_flight()} jobs have not ended after {PATIENCE_S:g} s")
    done_s = clock() - begun
    _look(sampled, latencies, 0.0)
    after = _cpu_s(pids)
    marks = quantiles(latencies, n=100) if len(latencies) > 1 else [float("nan")] * 99
    return {
        "what": f"{count:,} jobs at {rate} a second",
        "submitted per s": count / submitted_s,
        "ended per s": count / done_s,
        "looked at": len(latencies),
        "p50 ms": 1e3 * marks[49],
        "p99 ms": 1e3 * marks[98],
        "most in flight": most_in_flight,
        **{f"{who} ms": 1e3 * (after[who] - before[who]) / count for who in before},
        "head MiB": _memory_mib(pids["head"]),
    }


def _in_flight() -> int:
    queues = phalanx.queues()
    return sum(one.pending + one.inqueue + one.running + one.unknown for one in queues)


def _look(
    looked_at: deque[tuple[float, phalanx.JobHandle]],
    latencies: list[float],
    after_s: float = _LOOK_AFTER_S,
) -> None:
    """Record the latencies of jobs that were submitted at least `after_s` seconds ago and have
    ended.
    """
    for _ in range(len(looked_at)):
        asked, handle = looked_at[0]
        if time.time() - asked < after_s:
            return
        looked_at.popleft()
        row = handle.status()
        if row.finished is None:
            looked_at.append((asked, handle))
        else:
            latencies.append(row.finished - asked)


def _cpu_s(pids: dict[str, int]) -> dict[str, float]:
    """Return the CPU seconds of these processes, and of the node's helper processes. The fork
    server's time includes that of ended commands.
    """
    import psutil

    used: dict[str, float] = {}
    for who, pid in pids.items():
        times = psutil.Process(pid).cpu_times()
        used[who] = times.user + times.system
    helpers = 0.0
    for process in psutil.Process(pids["node"]).children(recursive=True):
        try:
            helpers += sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    me = psutil.Process().cpu_times()
    return {**used, "commands": helpers, "submitting": me.user + me.system}


def _memory_mib(pid: int) -> float:
    import psutil

    return float(psutil.Process(pid).memory_full_info().uss / 2**20)
