"""Rows of Ray's stress tests, at the size of one machine: dying actors, placement groups that are
created and removed, and tasks that need many others.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from phalanx_benchmarks.measure import Effort, seconds
from phalanx_benchmarks.row import Api, release
from phalanx_benchmarks.rows.clusters import cluster_of

PARENTS, CHILDREN, ROUNDS, PINGS = 3, 3, 10, 10
DEATHS = 0.05
"""The probability that a call ends the called child."""
NODES = 5
GROUPS = 60
"""The number of groups, which must be divisible by LAUNCHERS."""
LAUNCHERS = 3
LAYERS, WIDTH = 20, 100


def _dead_actors(api: Api, effort: Effort) -> list[float]:
    """Make parents call their children, some of which exit. A parent then creates all its children
    again.
    """
    exceptions = importlib.import_module(f"{api.__name__}.exceptions")

    class Child:
        def __init__(self, seed: int) -> None:
            import random

            self._random = random.Random(seed)

        def ping(self) -> None:
            if self._random.random() < DEATHS:
                raise SystemExit(1)

    child = api.remote(num_cpus=0)(Child)

    class Parent:
        def __init__(self, number: int) -> None:
            self._next = number << 16
            self._children: list[Any] = []
            self._renew()

        def _renew(self) -> None:
            self._children = [child.remote(self._next + at) for at in range(CHILDREN)]
            self._next += CHILDREN

        def ping(self) -> int:
            called = [one.ping.remote() for _ in range(PINGS) for one in self._children]
            try:
                api.get(called)
            except exceptions.RayActorError:
                self._renew()
                return 1
            return 0

    def run() -> None:
        parents = [api.remote(num_cpus=0)(Parent).remote(number) for number in range(PARENTS)]
        died = 0
        for _ in range(ROUNDS):
            died += sum(api.get([parent.ping.remote() for parent in parents]))
        if not died:
            raise AssertionError("no actor died")

    return seconds(run, times=1)


def _groups(api: Api, effort: Effort) -> list[float]:
    """Create all groups together, and remove them. Then make tasks create groups, fill half of
    them with work, and remove the rest.
    """
    util = importlib.import_module(f"{api.__name__}.util")
    strategies = importlib.import_module(f"{api.__name__}.util.scheduling_strategies")
    bundles = [{"slot": 1}] * NODES

    def stand() -> bool:
        return True

    task = api.remote(num_cpus=0, resources={"slot": 1})(stand)

    def make(count: int, strategy: str) -> list[Any]:
        return [util.placement_group(bundles, strategy=strategy) for _ in range(count)]

    def launch(before: list[Any], count: int) -> None:
        made = [*before, *make(count, "STRICT_SPREAD")]
        for group in made[1::2]:
            util.remove_placement_group(group)
        kept = made[::2]
        within = [strategies.PlacementGroupSchedulingStrategy(group) for group in kept]
        ran = [task.options(scheduling_strategy=place).remote() for place in within]
        api.get([group.ready() for group in kept])
        api.get(ran)
        for group in kept:
            util.remove_placement_group(group)

    launcher = api.remote(num_cpus=0)(launch)

    def run() -> None:
        made = make(GROUPS, "PACK")
        api.get([group.ready() for group in made])
        for group in made:
            util.remove_placement_group(group)
        each = GROUPS // LAUNCHERS
        before = [make(each // 3, "STRICT_SPREAD") for _ in range(LAUNCHERS)]
        api.get([launcher.remote(groups, each - each // 3) for groups in before])

    with cluster_of(api, NODES, num_cpus=1, resources={"slot": GROUPS}):
        return seconds(run, times=1)


def _layers(api: Api, effort: Effort) -> list[float]:
    """Run layers of tasks. Each task needs the results of all tasks of the previous layer."""

    def make(*before: Any) -> Any:
        return np.ones(0, np.uint8)

    task = api.remote(num_cpus=1)(make)

    def run() -> None:
        refs: list[Any] = []
        for _ in range(LAYERS):
            refs = [task.remote(*refs) for _ in range(WIDTH)]
        api.get(refs)

    return seconds(run, times=1)


ROWS = (
    release(f"{PARENTS} actors call {CHILDREN} each, which die now and then", _dead_actors),
    release(f"{2 * GROUPS} placement groups of {NODES} nodes come and go", _groups, session=False),
    release(f"{LAYERS} layers of {WIDTH} tasks, each needs the layer before", _layers),
)
