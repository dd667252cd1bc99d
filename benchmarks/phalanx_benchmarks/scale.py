"""How large a cluster one head can manage, measured on a real head's code with simulated nodes.
`run(clock)` measures this. There are no sockets. Received messages are decoded from bytes, but sent
messages are not encoded. All times are CPU time of the head's thread. `latency` is the CPU time
between a gang's submission and the start of its last member; the gang's nodes answer immediately.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any, ParamSpec, TypeVar

import msgspec

from phalanx.model.ids import PROCESS_ID_BYTES
from phalanx.model.lifecycle import ALIVE
from phalanx.protocol.report_messages import NodeReport
from phalanx.protocol.requests.actors import ActorSpec, RegisterActor
from phalanx.protocol.requests.gangs import Explain
from phalanx.protocol.requests.jobs import ApplyManifests, Manifest
from phalanx_benchmarks.fed_head import GPUS, Clock, FedHead, gpu_job, prefix_of

Row = dict[str, Any]
P = ParamSpec("P")
R = TypeVar("R")

NODES = (100, 1_000, 10_000)
SECONDS = 12
"""The number of simulated seconds. In each second every node reports, and one in eight nodes
reports a change.
"""
GANGS_PER_S = 1_000 / 60
MEMBERS = 4
WAITING = (10_000, 100_000)
ACTORS = ((1_000, 100), (10_000, 1_000))
"""The sizes of rows about actors, as pairs of the number of actors and the number of nodes."""
FULL = ((1_000, 10, 800, 2_000), (10_000, 100, 800, 20_000))
"""The sizes of full clusters: the numbers of nodes, of gangs that fill them, of members of each
gang, and of waiting jobs.
"""
_TOGETHER = 1_000
_EXPLAINED = 5
_PAGE = os.sysconf("SC_PAGE_SIZE")


def run(
    clock: Clock,
    nodes: Sequence[int] = NODES,
    waiting: Sequence[int] = WAITING,
    actors: Sequence[tuple[int, int]] = ACTORS,
    full: Sequence[tuple[int, int, int, int]] = FULL,
) -> list[Row]:
    """Return rows about heartbeats and gangs for each number of nodes, about a restart for each
    number of waiting jobs, about actors, and about explanations on full clusters. `clock` is not
    used, because CPU time is measured.
    """
    del clock
    rows = [row for count in nodes for row in _nodes(count)]
    rows += [row for count in waiting for row in _waiting(count)]
    rows += [row for count, on in actors for row in _actors(count, on)]
    return rows + [_explained(*sizes) for sizes in full]


def _nodes(count: int) -> list[Row]:
    head = FedHead()
    joined_s = _cpu(lambda: _each(head.join, range(1, count + 1)))
    head.settle()
    decoder = msgspec.msgpack.Decoder(NodeReport)
    names = (f"gang-{number}" for number in itertools.count())
    heartbeats: list[float] = []
    gangs: list[float] = []
    due = 0.0
    for second in range(1, SECONDS + 1):
        frames = [
            msgspec.msgpack.encode(head.reported(node, second if node % 8 == 0 else 0))
            for node in range(1, count + 1)
        ]
        head.time.now += 1.0

        def beat(frames: Sequence[bytes] = frames) -> None:
            for node, frame in enumerate(frames, 1):
                head.control.on_message(prefix_of(node), decoder.decode(frame))
            head.control.on_tick(head.time.now)

        heartbeats.append(_cpu(beat))
        due += GANGS_PER_S
        while due >= 1 and (len(gangs) + 1) * MEMBERS <= count * GPUS:
            due -= 1
            gangs.append(_cpu(partial(_start, head, next(names))))
    size = f"{count:,} nodes"
    return [
        {"what": f"{size} join", "cpu ms": 1e3 * joined_s, "µs each": 1e6 * joined_s / count},
        {
            "what": f"{size}: their heartbeats of a second",
            "cpu ms": 1e3 * _percentile(heartbeats, 50),
            "µs each": 1e6 * _percentile(heartbeats, 50) / count,
            "p50 ms": 1e3 * _percentile(heartbeats, 50),
            "p99 ms": 1e3 * _percentile(heartbeats, 99),
        },
        {
            "what": f"{size}: a gang of {MEMBERS}, 1,000 a minute",
            "cpu ms": 1e3 * sum(gangs) / SECONDS,
            "µs each": 1e6 * sum(gangs) / len(gangs),
            "p50 ms": 1e3 * _percentile(gangs, 50),
            "p99 ms": 1e3 * _percentile(gangs, 99),
            "MiB": _rss_mib(),
        },
    ]


def _start(head: FedHead, name: str) -> None:
    _submit(head, [name], MEMBERS)
    head.settle()


def _submit(head: FedHead, names: Iterable[str], members: int = 1) -> None:
    specs = [msgspec.msgpack.encode(gpu_job(name, members)) for name in names]
    head.ask(ApplyManifests([Manifest("Job", spec) for spec in specs]))


def _waiting(count: int) -> list[Row]:
    """Submit jobs that wait behind jobs that fill ten nodes, with a store on disk."""
    directory = tempfile.mkdtemp(prefix="phx-")
    names = [f"job-{number}" for number in range(count)]
    try:
        store = os.path.join(directory, "control.db")
        rows = _in_its_own_process(_fill, store, names)
        restart_s = _in_its_own_process(_restart_s, store, names[-1])
    finally:
        shutil.rmtree(directory)
    again = f"{count:,} waiting jobs: the head starts again, and explains one"
    return [
        *rows,
        {"what": again, "cpu ms": 1e3 * restart_s, "µs each": 1e6 * restart_s / count},
    ]


def _in_its_own_process(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run work in a new process, because the heap of a process that has already had a head is
    fragmented.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(work, *args, **kwargs).result()


def _fill(store: str, names: Sequence[str]) -> list[Row]:
    count = len(names)
    head = FedHead(store)
    _each(head.join, range(1, 11))
    before_mib = _rss_mib()

    def submit(first: int) -> None:
        _submit(head, names[first : first + _TOGETHER])

    def explain(number: int) -> None:
        head.ask(Explain(names[-1 - number]))

    submitted_s = _cpu(lambda: _each(submit, range(0, count, _TOGETHER)))
    head.settle()
    explained = [_cpu(partial(explain, number)) for number in range(_EXPLAINED)]
    idle = [_cpu(head.settle) for _ in range(_EXPLAINED)]
    head.close()
    size = f"{count:,} waiting jobs"
    return [
        {
            "what": f"{size}, submitted 1,000 at a time",
            "cpu ms": 1e3 * submitted_s,
            "µs each": 1e6 * submitted_s / count,
            "MiB": _rss_mib() - before_mib,
        },
        {
            "what": f"{size}: explain one",
            "cpu ms": 1e3 * _percentile(explained, 50),
            "p50 ms": 1e3 * _percentile(explained, 50),
            "p99 ms": 1e3 * _percentile(explained, 99),
        },
        {"what": f"{size}: a turn in which nothing happens", "cpu ms": 1e3 * _percentile(idle, 50)},
    ]


def _restart_s(store: str, name: str) -> float:
    """Return the CPU seconds that a process needs to become the next head and to give its first
    answer.
    """
    begun = time.thread_time()
    head = FedHead(store)
    head.settle()
    head.ask(Explain(name))
    took_s = time.thread_time() - begun
    head.close()
    return took_s


def _actors(count: int, nodes: int) -> list[Row]:
    """Create actors of one owner that hold one CPU each. Returns when all actors are ready."""
    head = FedHead()
    _each(head.join, range(1, nodes + 1))
    owner = prefix_of(1) + b"\xff" * (PROCESS_ID_BYTES - 6)

    def make(number: int) -> None:
        actor = owner + number.to_bytes(8, "big")
        spec = ActorSpec(actor=actor, class_name="Worker", hold={"CPU": 1.0}, place={"CPU": 1.0})
        head.ask(RegisterActor(spec, b"creation", []), owner)
        if number % _TOGETHER == 0:
            head.settle()

    before_mib = _rss_mib()
    took_s = _cpu(lambda: _each(make, range(count))) + _cpu(head.settle)
    ready = sum(actor.state == ALIVE for actor in head.control.actor_table.all())
    return [
        {
            "what": f"{count:,} actors on {nodes:,} nodes, {ready:,} ready",
            "cpu ms": 1e3 * took_s,
            "µs each": 1e6 * took_s / count,
            "MiB": _rss_mib() - before_mib,
        }
    ]


def _explained(nodes: int, gangs: int, members: int, waiting: int) -> Row:
    """Measure an explanation on a full cluster, for the first and for the last waiting job."""
    head = FedHead()
    _each(head.join, range(1, nodes + 1))
    for number in range(gangs):
        _submit(head, [f"running-{number}"], members)
    head.settle()
    names = [f"job-{number}" for number in range(waiting)]
    for first in range(0, waiting, _TOGETHER):
        _submit(head, names[first : first + _TOGETHER])
    head.settle()
    asked = [*names[:_EXPLAINED], *names[-_EXPLAINED:]]
    took = [_cpu(partial(head.ask, Explain(name))) for name in asked]
    return {
        "what": f"{nodes:,} nodes, {gangs * members:,} members run, {waiting:,} jobs wait: "
        "explain one",
        "cpu ms": 1e3 * _percentile(took, 50),
        "p50 ms": 1e3 * _percentile(took, 50),
        "p99 ms": 1e3 * _percentile(took, 99),
    }


def _each(do: Callable[[int], object], numbers: Iterable[int]) -> None:
    for number in numbers:
        do(number)


def _cpu(work: Callable[[], object]) -> float:
    begun = time.thread_time()
    work()
    return time.thread_time() - begun


def _percentile(figures: Sequence[float], percent: int) -> float:
    ordered = sorted(figures)
    return ordered[min(len(ordered) * percent // 100, len(ordered) - 1)]


def _rss_mib() -> float:
    with open("/proc/self/statm", encoding="ascii") as pages:
        return int(pages.read().split()[1]) * _PAGE / 2**20
