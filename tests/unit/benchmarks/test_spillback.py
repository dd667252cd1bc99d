"""The benchmark of the global schedulers: every task runs once, and the same input gives the same
result.
"""

from __future__ import annotations

import itertools

import pytest

from phalanx_benchmarks import spillback


def figures(name="default", threshold=0, load=0.9, tasks=400):
    ticks = itertools.count()
    return spillback._World(lambda: next(ticks), 12, name, threshold).measure(tasks, load)


@pytest.mark.parametrize(("name", "threshold"), spillback.CHOICES)
def test_every_task_runs_and_the_same_seed_gives_the_same(name, threshold):
    ticks = itertools.count()
    world = spillback._World(lambda: next(ticks), 12, name, threshold)
    row = world.measure(400, 0.9)
    assert len(world._waits) == 400
    assert all(not node.waiting and not node.machine.leases for node in world.nodes.values())
    for node in world.nodes.values():
        assert node.machine.resources.available() == node.machine.resources.total()
    assert 0 <= row["mean wait, s"] <= row["99 of 100 wait at most, s"] <= row["makespan, s"]
    assert row == figures(name, threshold)


def test_a_threshold_keeps_tasks_at_home_and_more_load_makes_them_wait():
    assert figures(threshold=40)["ran elsewhere"] < figures()["ran elsewhere"]
    assert figures(load=3.0)["mean wait, s"] > figures(load=0.3)["mean wait, s"]
