"""Hooks that Ray's Tune sets are called when work is submitted to a placement group, and may refuse
it.
"""

from __future__ import annotations

import pytest

import phalanx
from phalanx.adapters.ray.modules import actor as ray_actor
from phalanx.adapters.ray.modules import remote_function
from phalanx.util.placement_group import placement_group, remove_placement_group
from phalanx.util.scheduling_strategies import PlacementGroupSchedulingStrategy


@pytest.fixture(scope="module")
def runtime():
    phalanx.shutdown()
    phalanx.init(num_cpus=2, log_to_driver=False)
    yield
    phalanx.shutdown()


@pytest.fixture
def group(runtime):
    made = placement_group([{"CPU": 1}])
    yield made
    remove_placement_group(made)


@phalanx.remote(num_cpus=1)
def work():
    return "done"


@phalanx.remote(num_cpus=1)
class Worker:
    def work(self):
        return "done"


@pytest.fixture
def heard(monkeypatch):
    """Return the recorded calls of both hooks. Each hook accepts one call and refuses the next."""
    told = []

    def hook(what, resources, strategy):
        told.append((what.class_name, what.function_name, resources, strategy.placement_group.id))
        if len(told) > 1:
            raise RuntimeError("there is no room for it in the trial")

    monkeypatch.setattr(remote_function, "_task_launch_hook", hook)
    monkeypatch.setattr(ray_actor, "_actor_launch_hook", hook)
    return told


def test_what_goes_into_a_group_is_heard_of_and_may_be_refused(group, heard):
    inside = PlacementGroupSchedulingStrategy(group)
    assert phalanx.get(work.options(scheduling_strategy=inside).remote()) == "done"
    assert heard == [("", "work", {"CPU": 1.0}, group.id)]
    with pytest.raises(RuntimeError, match="no room for it in the trial"):
        Worker.options(scheduling_strategy=inside).remote()
    assert heard[1] == ("Worker", "__init__", {"CPU": 1.0}, group.id)


def test_what_goes_into_none_is_not(runtime, heard):
    assert phalanx.get(work.remote()) == "done"
    assert heard == []
