"""The cost of a cluster for a program for which one node is enough.

`run(clock)` measures this. The same work runs on one machine without a head, on a cluster of one
node, and on clusters whose other nodes are idle. The layouts alternate several times.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import phalanx
from phalanx.cluster_utils import Cluster
from phalanx.util import placement_group, remove_placement_group
from phalanx_benchmarks.measure import Effort, rates

ROUNDS = 3
CPUS = 2
TASKS = 1000
EFFORT = Effort(rounds=1, warm_up_s=0.3, repetitions=3, repetition_s=0.3, limit_s=30.0, scale=1.0)
LAYOUTS = {"no head": 0, "1 node": 1, "2 nodes": 2}
"""The number of nodes for each layout; 0 means a plain `init()`."""

Clock = Callable[[], float]


def run(clock: Clock) -> list[dict[str, Any]]:
    """Return the rows of the group `nodes`: medians of calls per second, also as fractions of the
    rate without a head.
    """
    samples: dict[str, dict[str, list[float]]] = {name: {} for name in LAYOUTS}
    for _ in range(ROUNDS):
        for name, nodes in LAYOUTS.items():
            with _running(nodes):
                for work, rate in _rates(clock).items():
                    samples[name].setdefault(work, []).append(rate)
    rows = []
    for name, found in samples.items():
        row: dict[str, Any] = {"layout": name}
        for work, all_of_it in found.items():
            # Both figures come from one round, so that a slow machine slows both.
            plain = samples["no head"][work]
            shares = [one / other for one, other in zip(all_of_it, plain, strict=True)]
            row[f"{work}_per_s"] = statistics.median(all_of_it)
            row[f"{work}_share"] = statistics.median(shares)
        rows.append(row)
    return rows


@contextmanager
def _running(nodes: int) -> Iterator[None]:
    if not nodes:
        phalanx.init(num_cpus=CPUS)
        try:
            yield
        finally:
            phalanx.shutdown()
        return
    cluster = Cluster()
    try:
        for _ in range(nodes):
            cluster.add_node(num_cpus=CPUS)
        cluster.connect()
        cluster.wait_for_nodes()
        yield
    finally:
        cluster.shutdown()


def _rates(clock: Clock) -> dict[str, float]:
    @phalanx.remote
    def nothing() -> None:
        pass

    @phalanx.remote(num_cpus=0)
    class Quiet:
        def nothing(self) -> None:
            pass

    actor: Any = Quiet.remote()
    phalanx.get(actor.nothing.remote())

    def groups() -> None:
        made = [placement_group([{"CPU": 0.001}]) for _ in range(50)]
        for group in made:
            group.wait(30)
        for group in made:
            remove_placement_group(group)

    works: dict[str, tuple[Callable[[], Any], int]] = {
        "tasks_at_once": (lambda: phalanx.get([nothing.remote() for _ in range(TASKS)]), TASKS),
        "tasks_one_by_one": (lambda: phalanx.get(nothing.remote()), 1),
        "calls_one_by_one": (lambda: phalanx.get(actor.nothing.remote()), 1),
        "groups": (groups, 50),
    }
    return {
        name: statistics.median(rates(work, per_call=count, effort=EFFORT, clock=clock))
        for name, (work, count) in works.items()
    }
