"""The speed of a large object that many nodes need, and of more objects than memory holds.

`run(clock)` measures this. A broadcast sends one array to every node of a cluster at the same time.
In a shuffle, each of many tasks makes a part for each of many other tasks. All parts together
exceed the object store. Memory is measured every 0.2 s to find its peak.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import phalanx

Clock = Callable[[], float]
Row = dict[str, Any]

BROADCAST_MIB, NODES = 1024, 16
SHUFFLE_GB, PARTS = 10.0, 50
STORE_MIB = 1024
_PART_BYTES = 2_000_000
_MIB = 1 << 20
_LOOK_S = 0.2


def run(
    clock: Clock,
    broadcast_mib: int = BROADCAST_MIB,
    nodes: int = NODES,
    shuffle_gb: float = SHUFFLE_GB,
    parts: int = PARTS,
    store_mib: int = STORE_MIB,
) -> list[Row]:
    """Return one row for the broadcast and one row for the shuffle."""
    return [
        _broadcast(clock, broadcast_mib, nodes),
        _shuffle(clock, shuffle_gb, parts, store_mib),
    ]


@phalanx.remote(num_cpus=1)
def length(array: Any) -> int:
    """Return the length of an array, as proof that it has arrived."""
    return len(array)


def make_parts(seed: int, parts: int) -> list[Any]:
    """Return random arrays of _PART_BYTES."""
    import numpy as np

    made = np.random.default_rng(seed).integers(0, 256, (parts, _PART_BYTES), np.uint8)
    return list(made)


@phalanx.remote
def take_parts(*parts: Any) -> int:
    """Return the number of bytes of all parts together."""
    return sum(part.nbytes for part in parts)


def _broadcast(clock: Clock, mib: int, count: int) -> Row:
    import numpy as np

    from phalanx.cluster_utils import Cluster
    from phalanx.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    cluster = Cluster()
    try:
        cluster.add_node(num_cpus=0, object_store_memory=(mib + 256) * _MIB)
        made = [
            cluster.add_node(num_cpus=1, object_store_memory=(mib + 64) * _MIB)
            for _ in range(count)
        ]
        cluster.connect()
        cluster.wait_for_nodes()
        there = [
            length.options(
                scheduling_strategy=NodeAffinitySchedulingStrategy(one.node_id, soft=False)
            )
            for one in made
        ]
        phalanx.get([one.remote(b"") for one in there])  # now a worker runs on each node
        ref = phalanx.put(np.ones(mib * _MIB, np.uint8))
        begun = clock()
        phalanx.get([one.remote(ref) for one in there])
        took_s = clock() - begun
        given = Counter(
            event["source"] for event in phalanx.cluster_events() if event["event"] == "PullStarted"
        )
    finally:
        cluster.shutdown()
    return {
        "what": f"{mib} MiB to {count} nodes",
        "s": took_s,
        "GB/s": mib * _MIB * count / took_s / 1e9,
        "most copies given by one node": max(given.values()),
        "nodes that gave any": len(given),
    }


def _shuffle(clock: Clock, gigabytes: float, parts: int, store_mib: int) -> Row:
    tasks = max(int(gigabytes * 1e9 / (parts * _PART_BYTES)), 1)
    make = phalanx.remote(num_returns=parts)(make_parts)
    with phalanx.init(object_store_memory=store_mib * _MIB, log_to_driver=False), _peaks() as peak:
        begun = clock()
        made = [make.remote(seed, parts) for seed in range(tasks)]
        taken = phalanx.get([take_parts.remote(*(one[at] for one in made)) for at in range(parts)])
        took_s = clock() - begun
    return {
        "what": f"{sum(taken) / 1e9:.1f} GB from {tasks} tasks to {parts}",
        "s": took_s,
        "GB/s": sum(taken) / took_s / 1e9,
        "store, MiB": store_mib,
        "shared memory at most, MiB": peak["shared"] / _MIB,
        "private memory at most, MiB": peak["private"] / _MIB,
    }


@contextmanager
def _peaks() -> Iterator[dict[str, float]]:
    """Yield the highest memory use of this process and its descendants, and of /dev/shm."""
    import psutil

    def shared() -> float:
        found = os.statvfs("/dev/shm")
        return float((found.f_blocks - found.f_bfree) * found.f_frsize)

    me, before, over = psutil.Process(), shared(), threading.Event()
    peak = {"shared": 0.0, "private": 0.0}

    def look() -> None:
        while not over.wait(_LOOK_S):
            private = 0
            for process in (me, *me.children(recursive=True)):
                try:
                    private += process.memory_full_info().uss
                except psutil.Error:
                    continue
            peak["private"] = max(peak["private"], private)
            peak["shared"] = max(peak["shared"], shared() - before)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield peak
    finally:
        over.set()
        watcher.join()
