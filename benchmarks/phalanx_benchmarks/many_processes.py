"""How many nodes, actors and waiting tasks one machine can hold with real processes. `run(clock)`
measures this. `MiB` is the private memory of all processes of the session, without shared pages. A
row adds no further processes when this memory reaches `MOST_MIB`, and reports their number.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import phalanx

Clock = Callable[[], float]
Row = dict[str, Any]

NODES = 50
ACTORS = 300
TASKS = 1_000_000
OWNERS = 100
MOST_MIB = 5_000.0
_TOGETHER = 50_000
PATIENCE_S = 300.0


@phalanx.remote
class Idle:
    """An actor that only answers calls."""

    def answer(self) -> int:
        """Answer a call."""
        return 1


@phalanx.remote
def nothing() -> None:
    """Do nothing, as an empty task."""


@phalanx.remote
def hold(pipe: str) -> None:
    """Run until another process opens the named pipe for writing."""
    with open(pipe, "rb") as end:
        end.read()


@phalanx.remote(num_cpus=0)
class Owner:
    """An actor that submits tasks and waits for them."""

    def __init__(self) -> None:
        self._refs: list[Any] = []

    def submit(self, count: int) -> None:
        """Submit this many tasks."""
        self._refs = [nothing.remote() for _ in range(count)]

    def wait(self) -> int:
        """Wait until all tasks have ended. Returns their number."""
        return len(phalanx.get(self._refs))


def run(
    clock: Clock,
    nodes: int = NODES,
    actors: int = ACTORS,
    tasks: int = TASKS,
    owners: int = OWNERS,
) -> list[Row]:
    """Return four rows: nodes of one cluster, actors of one driver, tasks of one owner, and tasks
    of many owners.
    """
    return [
        _nodes(clock, nodes),
        _actors(clock, actors),
        _tasks(clock, tasks),
        _owners(clock, owners, tasks // owners),
    ]


def _nodes(clock: Clock, count: int) -> Row:
    """Start node processes that join one head, and then run a task on each node."""
    from phalanx.cluster_utils import Cluster

    cluster = Cluster()
    try:
        begun = clock()
        made = [
            cluster.add_node(num_cpus=1, object_store_memory=16 * 2**20)
            for _ in _until_full(count, 5)
        ]
        joined_s = clock() - begun
        memory = _memory_mib()
        cluster.connect()
        cluster.wait_for_nodes(PATIENCE_S)
        begun = clock()
        spread = nothing.options(scheduling_strategy="SPREAD", num_cpus=1)
        phalanx.get([spread.remote() for _ in made], timeout=PATIENCE_S)
        return _row(f"{len(made)} nodes joined", len(made), joined_s, memory, clock() - begun)
    finally:
        cluster.shutdown()


def _actors(clock: Clock, count: int) -> Row:
    """Start actors, wait until each has answered, and then call each again."""
    with phalanx.init(num_cpus=count, log_to_driver=False):
        begun = clock()
        made: list[Any] = []
        for _ in _until_full(count, 25):
            made.append(Idle.options(num_cpus=1).remote())
            if len(made) % 25 == 0:
                phalanx.get([one.answer.remote() for one in made[-25:]], timeout=PATIENCE_S)
        phalanx.get([one.answer.remote() for one in made], timeout=PATIENCE_S)
        ready_s, memory = clock() - begun, _memory_mib()
        begun = clock()
        phalanx.get([one.answer.remote() for one in made], timeout=PATIENCE_S)
        return _row(f"{len(made)} actors made", len(made), ready_s, memory, clock() - begun)


def _tasks(clock: Clock, count: int) -> Row:
    """Queue tasks for the only CPU, which another task holds until all tasks are submitted."""
    with _named_pipe() as pipe, phalanx.init(num_cpus=1, log_to_driver=False):
        holding = hold.remote(pipe)
        begun = clock()
        refs: list[Any] = [nothing.remote() for _ in _until_full(count, _TOGETHER)]
        submitted_s, memory = clock() - begun, _memory_mib()
        with open(pipe, "wb"):
            pass
        begun = clock()
        phalanx.get([holding, *refs], timeout=PATIENCE_S)
        what = f"{len(refs):,} tasks queued"
        return _row(what, len(refs), submitted_s, memory, clock() - begun)


def _owners(clock: Clock, count: int, each: int) -> Row:
    """Queue tasks of many owners at the same time. Each owner is a process."""
    with _named_pipe() as pipe, phalanx.init(num_cpus=1, log_to_driver=False):
        holding = hold.remote(pipe)
        made = [Owner.remote() for _ in range(count)]
        phalanx.get([one.submit.remote(0) for one in made], timeout=PATIENCE_S)
        begun = clock()
        phalanx.get([one.submit.remote(each) for one in made], timeout=PATIENCE_S)
        submitted_s, memory = clock() - begun, _memory_mib()
        with open(pipe, "wb"):
            pass
        begun = clock()
        phalanx.get(holding, timeout=PATIENCE_S)
        ended = sum(phalanx.get([one.wait.remote() for one in made], timeout=PATIENCE_S))
        what = f"{ended:,} tasks of {count} owners queued"
        return _row(what, ended, submitted_s, memory, clock() - begun)


@contextmanager
def _named_pipe() -> Iterator[str]:
    directory = tempfile.mkdtemp(prefix="phx-")
    try:
        pipe = os.path.join(directory, "pipe")
        os.mkfifo(pipe)
        yield pipe
    finally:
        shutil.rmtree(directory)


def _until_full(count: int, often: int) -> Iterator[int]:
    """Yield 1 to `count`, but stop when memory is full. Memory is measured after every `often`
    numbers.
    """
    for number in range(1, count + 1):
        if number % often == 0 and _memory_mib() > MOST_MIB:
            return
        yield number


def _row(what: str, count: int, took_s: float, memory_mib: float, used_s: float) -> Row:
    return {
        "what": what,
        "s": took_s,
        "per s": count / took_s,
        "MiB": memory_mib,
        "kB each": 1e3 * memory_mib / max(count, 1) * 1.048576,
        "one task or call of each, s": used_s,
    }


def _memory_mib() -> float:
    import psutil

    me = psutil.Process()
    total = 0
    for process in (me, *me.children(recursive=True)):
        try:
            total += process.memory_full_info().uss
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return total / 2**20
