"""Rows of clusters, after Ray's release benchmarks. Nodes are processes on this machine. The rows
run many tasks, actors, placement groups and nodes, and send an object to all nodes.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from phalanx_benchmarks.measure import Effort, seconds
from phalanx_benchmarks.row import Api, release

NODES = 4
CPUS = 16
"""The CPUs that each node declares. The machine may have fewer, because work on these nodes only
waits.
"""
AT_ONCE = 24
PART_OF_A_CPU = 0.25
GROUPS = 8
JOINING = 4
BROADCAST_MIB, READERS = 256, 4
STORE_BYTES = 400 << 20


@contextmanager
def cluster_of(api: Api, nodes: int, **size: Any) -> Iterator[Any]:
    """Yield a cluster of this many nodes. The head's own node is additional, and has no CPU. This
    process is the cluster's driver.
    """
    module = importlib.import_module(f"{api.__name__}.cluster_utils")
    cluster = module.Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 0,
            "include_dashboard": False,
            "object_store_memory": STORE_BYTES,
        },
    )
    try:
        add_nodes(cluster, nodes, **size)
        cluster.connect()
        cluster.wait_for_nodes()
        yield cluster
    finally:
        api.shutdown()
        cluster.shutdown()


def add_nodes(cluster: Any, count: int, **size: Any) -> None:
    """Add this many nodes of equal size."""
    for _ in range(count):
        cluster.add_node(**{"object_store_memory": STORE_BYTES, **size})


def _many_tasks(api: Api, effort: Effort) -> list[float]:
    """Measure the time until all tasks run at the same time. Each task waits for all other
    tasks.
    """

    class Meeting:
        def __init__(self, count: int) -> None:
            import asyncio

            self._missing = count
            self._all_are_here = asyncio.Event()

        async def come(self) -> None:
            self._missing -= 1
            if not self._missing:
                self._all_are_here.set()
            await self._all_are_here.wait()

    def meet(meeting: Any) -> None:
        api.get(meeting.come.remote())

    options = {"num_cpus": 0, "max_concurrency": AT_ONCE}
    task = api.remote(num_cpus=PART_OF_A_CPU)(meet)
    with cluster_of(api, NODES, num_cpus=CPUS):
        meeting = api.remote(**options)(Meeting).remote(AT_ONCE)
        return seconds(
            lambda: api.get([task.remote(meeting) for _ in range(AT_ONCE)]),
            times=1,
        )


def _answering(api: Api, **options: Any) -> Any:
    class Answering:
        def answer(self) -> str:
            return "answered"

        def total(self, array: Any) -> int:
            return int(array.sum())

    return api.remote(**options)(Answering)


def _ask_all(api: Api, actors: list[Any]) -> None:
    api.get([actor.answer.remote() for actor in actors])


def _many_actors(api: Api, effort: Effort) -> list[float]:
    kind = _answering(api, num_cpus=PART_OF_A_CPU)
    with cluster_of(api, NODES, num_cpus=CPUS):
        return seconds(lambda: _ask_all(api, [kind.remote() for _ in range(AT_ONCE)]), times=1)


def _many_groups(api: Api, effort: Effort) -> list[float]:
    """Create groups of three bundles with an actor in each bundle, and remove all groups."""
    util = importlib.import_module(f"{api.__name__}.util")
    strategies = importlib.import_module(f"{api.__name__}.util.scheduling_strategies")
    bundles = [{"node": 0.02, "CPU": 1}, {"CPU": 1}, {"node": 0.02}]
    kind = _answering(api, num_cpus=0)

    def fill_and_remove() -> None:
        groups = [util.placement_group(bundles=bundles) for _ in range(GROUPS)]
        for group in groups:
            api.get(group.ready())
        within = [strategies.PlacementGroupSchedulingStrategy(group) for group in groups]
        actors = [
            kind.options(scheduling_strategy=place).remote() for place in within for _ in bundles
        ]
        _ask_all(api, actors)
        for group in groups:
            util.remove_placement_group(group)

    with cluster_of(api, NODES, num_cpus=CPUS, resources={"node": 1}):
        return seconds(fill_and_remove, times=1)


def _many_nodes(api: Api, effort: Effort) -> list[float]:
    """Measure the time from a cluster with only a head until an actor on each node has answered."""
    kind = _answering(api, num_cpus=1)
    with cluster_of(api, 0) as cluster:

        def join_and_answer() -> None:
            add_nodes(cluster, JOINING, num_cpus=1)
            _ask_all(api, [kind.remote() for _ in range(JOINING)])

        return seconds(join_and_answer, times=1)


def _broadcast(api: Api, effort: Effort) -> list[float]:
    kind = _answering(api, num_cpus=1)
    with cluster_of(api, READERS, num_cpus=1):
        actors = [kind.remote() for _ in range(READERS)]
        _ask_all(api, actors)
        ref = api.put(np.ones(BROADCAST_MIB << 20, np.uint8))

        def read_all() -> None:
            found = api.get([actor.total.remote(ref) for actor in actors])
            if found != [BROADCAST_MIB << 20] * READERS:
                raise AssertionError("a node has a value other than the one that was put")

        return seconds(read_all, times=1)


ROWS = (
    release(f"{AT_ONCE} tasks run at once on {NODES} nodes", _many_tasks, session=False),
    release(f"{AT_ONCE} actors on {NODES} nodes answer", _many_actors, session=False),
    release(
        f"{GROUPS} placement groups on {NODES} nodes, three actors in each",
        _many_groups,
        session=False,
    ),
    release(f"{JOINING} nodes join, an actor on each answers", _many_nodes, session=False),
    release(f"{BROADCAST_MIB} MiB to {READERS} nodes", _broadcast, session=False),
)
