"""Nodes are killed while work runs: every result that was promised arrives."""

from __future__ import annotations

import random

import numpy as np
import pytest
from tests.polling import eventually

import phalanx
from phalanx import exceptions as errors

LEAVES = 2000
LARGE = 30_000
"""The length of an array that is too large to be sent inline."""


@phalanx.remote(max_retries=-1)
def leaf(i):
    return np.full(LARGE if i % 10 == 0 else 10, i)


@phalanx.remote(max_retries=-1)
def add(a, b):
    return a + b if len(a) == len(b) else a[:10] + b[:10]


@phalanx.remote(max_restarts=-1, max_task_retries=-1, num_cpus=0)
class Doubler:
    def double(self, x):
        return 2 * x


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_nodes_killed_at_random_under_tasks_that_depend_on_each_other_and_actors(
    new_cluster, get, seed
):
    """5,000 tasks with large and small values, and 20 actors. A node is killed each time when
    another tenth of the tasks has ended.
    """
    rng = random.Random(seed)
    cluster = new_cluster(1, 1, 1, 1)
    actors = [Doubler.remote() for _ in range(20)]
    leaves = [leaf.remote(i) for i in range(LEAVES)]
    sums = [add.remote(leaves[i], leaves[(i + 1) % LEAVES]) for i in range(LEAVES)]
    last = [add.remote(sums[i], sums[i + 1]) for i in range(LEAVES // 2)]
    calls = [actors[i % 20].double.remote(i) for i in range(1000)]
    waiting = last
    for _ in range(4):
        done, waiting = phalanx.wait(waiting, num_returns=100, timeout=120)
        assert len(done) == 100
        victim = rng.choice(cluster.list_all_nodes()[1:])
        cluster.remove_node(victim, allow_graceful=False)
        cluster.add_node(wait=False, num_cpus=1)
    for i, value in enumerate(get(last)):
        assert value[0] == i + 2 * ((i + 1) % LEAVES) + (i + 2) % LEAVES
    assert get(calls) == [2 * i for i in range(1000)]


@phalanx.remote
class Counter:
    def __init__(self):
        self.count = 0

    def add(self):
        self.count += 1
        return self.count

    def node(self):
        return phalanx.get_runtime_context().get_node_id()


def test_an_actor_of_a_dead_node_is_gone_or_back_as_declared(new_cluster, get):
    cluster = new_cluster(1)
    doomed = cluster.add_node(num_cpus=2, resources={"here": 2})
    where = {"resources": {"here": 1}}
    once = Counter.options(**where).remote()
    again = Counter.options(**where, max_restarts=1, max_task_retries=-1).remote()
    assert get([once.node.remote(), again.node.remote()]) == [doomed.node_id] * 2
    cluster.remove_node(doomed, allow_graceful=False)
    with pytest.raises(errors.ActorDiedError, match="node"):
        get(once.add.remote())
    call = again.node.remote()
    heir = cluster.add_node(num_cpus=1, resources={"here": 1})
    assert get(call) == heir.node_id


def test_objects_of_a_dead_node_are_made_again_or_named(new_cluster, get):
    cluster = new_cluster(1)
    doomed = cluster.add_node(num_cpus=1, resources={"here": 1})

    @phalanx.remote
    def make(n):
        return np.arange(n)

    @phalanx.remote(num_cpus=0)
    class Holder:
        def put(self, n):
            return [phalanx.put(np.arange(n))]

    made = make.options(resources={"here": 0.1}).remote(LARGE)
    stubborn = make.options(resources={"here": 0.1}, max_retries=0).remote(LARGE)
    holder = Holder.options(resources={"here": 0.1}).remote()
    (held,) = get(holder.put.remote(LARGE))
    phalanx.wait([made, stubborn, held], num_returns=3, timeout=60, fetch_local=False)
    cluster.remove_node(doomed, allow_graceful=False)
    cluster.add_node(num_cpus=1, resources={"here": 1})
    assert get(made)[-1] == LARGE - 1
    with pytest.raises(errors.ObjectLostError, match="max_retries=0"):
        get(stubborn)
    with pytest.raises(errors.OwnerDiedError, match="owned"):
        get(held)


def test_what_a_group_lost_with_a_node_is_placed_anew(new_cluster, get):
    from phalanx.util import placement_group, placement_group_table
    from phalanx.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    cluster = new_cluster(1, 1)
    group = placement_group([{"CPU": 1}, {"CPU": 1}], strategy="STRICT_SPREAD")
    assert group.wait(60)
    survivor, doomed = cluster.list_all_nodes()
    cluster.remove_node(doomed, allow_graceful=False)
    eventually(lambda: placement_group_table(group)["state"] == "RESCHEDULING")

    def ready_that_waits():
        """Return a reference to the group's `ready` that waits; None if the driver's node does not
        yet know that the group is incomplete. The nodes learn this one after another.
        """
        asked = group.ready()
        get(leaf.options(scheduling_strategy=PlacementGroupSchedulingStrategy(group)).remote(1))
        return asked if phalanx.wait([asked], timeout=0)[0] == [] else None

    whole = eventually(ready_that_waits)
    heir = cluster.add_node(num_cpus=1)
    assert get(whole) == group
    nodes = placement_group_table(group)["bundles_to_node_id"]
    (lost,) = (index for index, node in nodes.items() if node != survivor.node_id)
    where = Counter.options(
        num_cpus=1,
        scheduling_strategy=PlacementGroupSchedulingStrategy(
            group, placement_group_bundle_index=lost
        ),
    ).remote()
    assert get(where.node.remote()) == heir.node_id
