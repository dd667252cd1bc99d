"""The amounts that queues deserve by weight do not depend on which job came first."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.scheduler.cycle.cluster import Cluster
from phalanx.scheduler.cycle.config import CHART_YAML, parse_volcano
from phalanx.scheduler.cycle.registry import known_plugins
from phalanx.scheduler.cycle.specs import (
    NodeSpec,
    PodGroupSpec,
    QueueSpec,
    Shape,
    Snapshot,
    TaskSpec,
)
from phalanx.scheduler.plugins.proportion import Proportion

CHART = parse_volcano(CHART_YAML, known_plugins())
WANTED = (21.0, 1.0, 8.0, 0.3, 2.5, 21.0, 8.0, 2.5, 13.0)


class Opened:
    """The parts of a session that the plugin needs to compute what queues deserve."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def add(self, hook: str, plugin: str, fn: Any) -> None:
        """Do nothing, because the test uses no hooks."""


def deserved(names: list[str]) -> list[list[float]]:
    """Return what each queue deserves. Each queue has one job with the given name, and jobs are
    ordered by name.
    """
    queues = [QueueSpec(name=f"q{i}", weight=1 + i % 4) for i in range(len(WANTED))]
    snapshot = Snapshot(
        config=CHART,
        nodes=(NodeSpec(name="n", capacity=(("cpu", 64.0), ("memory", 1e12), ("pods", 110.0))),),
        queues=tuple(queues),
        podgroups=tuple(
            PodGroupSpec(name=name, queue=q.name) for name, q in zip(names, queues, strict=True)
        ),
        tasks=tuple(
            TaskSpec(name=name, podgroup=name, shape=Shape(request=(("cpu", cpu),)))
            for name, cpu in zip(names, WANTED, strict=True)
        ),
    )
    plugin = Proportion({})
    plugin.open(Opened(Cluster(snapshot)))  # type: ignore[arg-type]
    return [plugin.entries[q].deserved.v.tolist() for q in range(len(queues))]


@pytest.mark.parametrize("first", range(1, len(WANTED)))
def test_the_order_of_jobs_is_not_the_order_of_rounding(first: int) -> None:
    names = [f"j{i}" for i in range(len(WANTED))]
    assert deserved(names) == deserved(names[first:] + names[:first])
