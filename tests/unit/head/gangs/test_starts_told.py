"""The metric for the difference between the start that people were told and the time at which a
gang got its places.
"""

from __future__ import annotations

from tests.world.cluster import World

from phalanx.model.jobs.timing import Timing
from phalanx.protocol.requests.metrics import GetMetrics, MetricsSince
from phalanx.protocol.requests.news import ListWaiting

from .test_cycle_log import put
from .test_what_people_see import settle

NAME = "phalanx_start_estimate_error_seconds"


def seen(world: World) -> list[tuple[float, float]]:
    """Return (number of values, their sum) of each sample of the metric."""
    own = world.ask(GetMetrics(MetricsSince())).own
    return [
        (sum(sample.counts or ()), sample.value)
        for numbers in own
        if numbers.name == NAME
        for sample in numbers.samples
    ]


def test_the_first_start_that_was_told_is_held_against_the_places():
    world = World()
    world.add("n1", CPU=1.0)
    put(world, "runs", timing=Timing(limit_s=600.0))
    put(world, "waits", timing=Timing(limit_s=600.0))
    (wait,) = world.ask(ListWaiting())
    assert wait.expected_start is not None
    assert not seen(world), "it has no places yet"
    world.now += 100.0
    world.ask(ListWaiting())
    world.add("n2", CPU=1.0)
    settle(world)
    ((count, total),) = seen(world)
    assert count == 1
    assert 0.0 < total < wait.expected_start.in_s
