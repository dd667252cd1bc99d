"""The scheduler's eyes and hands on Ray's nodes: looks at them, and starts Runners.

Its calls to Ray take their time, so they have a thread of their own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from phalanx.engines.ray.scheduler.loop import Loop
from phalanx.engines.ray.scheduler.options import NAMESPACE, RUNNER
from phalanx.engines.ray.scheduler.ray_calls import available_by_node, nodes
from phalanx.engines.ray.scheduler.runner import Runner, RunnerSetup

LOOK_EVERY_S = 0.5

Viewed = Callable[[list[dict[str, Any]], dict[str, dict[str, float]]], None]


class Fleet:
    """Tells `viewed` about Ray's nodes and what is free on each, twice a second and when asked."""

    def __init__(self, viewed: Viewed) -> None:
        self._viewed = viewed
        self._loop = Loop("phalanx-fleet", self._tick, lambda: None)
        self._look_at = 0.0

    def start(self) -> None:
        """Look from now on."""
        self._loop.start(self._look)

    def look_then(self, action: Callable[[], None]) -> None:
        """Look now, and do this when what was seen is told; from any thread."""

        def look() -> None:
            try:
                self._look()
            finally:
                action()

        self._loop.call(look)

    def _tick(self, now: float) -> None:
        if now >= self._look_at:
            self._look()

    def _look(self) -> None:
        self._look_at = time.monotonic() + LOOK_EVERY_S
        self._viewed(nodes(), available_by_node())

    def start_runner(self, setup: RunnerSetup) -> None:
        """Have a Runner on a node, unless it has one that lives; from any thread."""
        self._loop.call(lambda: self._start(setup))

    def _start(self, setup: RunnerSetup) -> None:
        ray.remote(Runner).options(
            name=f"{RUNNER}{setup.ray_node}",
            namespace=NAMESPACE,
            lifetime="detached",
            get_if_exists=True,
            num_cpus=0,
            max_restarts=0,
            max_task_retries=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(setup.ray_node, soft=False),
        ).remote(msgspec.msgpack.encode(setup))
