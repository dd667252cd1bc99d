"""A thread that watches Ray's nodes for the scheduler, and starts an agent on each. The thread is
separate because calls to Ray are slow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from phalanx.adapters.ray.scheduler.node_agent import AgentSetup, NodeAgent
from phalanx.adapters.ray.scheduler.options import NAMESPACE, NODE_AGENT
from phalanx.adapters.ray.scheduler.ray_calls import available_by_node, ended_jobs, nodes
from phalanx.adapters.ray.scheduler.ray_groups import RayGroups
from phalanx.adapters.ray.scheduler.reservation import Amounts
from phalanx.model.ids import AttemptId
from phalanx.runtime.os.loop import Loop
from phalanx.runtime.os.own_time import own_time

LOOK_EVERY_S = 0.5

Viewed = Callable[[list[dict[str, Any]], dict[str, Amounts], set[str]], None]


class Fleet:
    """A thread that calls `viewed` with Ray's nodes, their available amounts, and the drivers' jobs
    that have ended. The calls come twice a second, and more often while resources are being
    released.
    """

    def __init__(self, viewed: Viewed, groups: RayGroups) -> None:
        self._viewed = viewed
        self._groups = groups
        self.has_owners = False
        """Whether drivers own gangs. A driver's gangs must be removed when the driver ends."""
        self._loop = Loop(self._tick, lambda: None)
        self._look_at = 0.0

    def start(self) -> None:
        """Start watching."""
        self._loop.start_thread("phalanx-fleet", self._look)

    def _tick(self, now: float) -> None:
        if now >= self._look_at or self._groups.is_waiting:
            self._look()

    def _look(self) -> None:
        now = own_time()
        self._look_at = now + LOOK_EVERY_S
        ended = ended_jobs() if self.has_owners else set()
        free = available_by_node()
        self._viewed(nodes(), free, ended)
        for freed in self._groups.seen(free, now):
            freed()  # availability is known before other gangs are planned onto the freed resources

    def sweep(self, known: list[AttemptId]) -> None:
        """Remove placement groups that are not in `known`. May be called from any thread."""
        self._loop.call(lambda: self._groups.sweep(known))

    def start_agent(self, setup: AgentSetup) -> None:
        """Start an agent on a node, unless the node has a living agent. May be called from any
        thread.
        """
        self._loop.call(lambda: self._start(setup))

    def _start(self, setup: AgentSetup) -> None:
        ray.remote(NodeAgent).options(
            name=f"{NODE_AGENT}{setup.ray_node}",
            namespace=NAMESPACE,
            lifetime="detached",
            get_if_exists=True,
            num_cpus=0,
            max_restarts=0,
            max_task_retries=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(setup.ray_node, soft=False),
        ).remote(msgspec.msgpack.encode(setup))
