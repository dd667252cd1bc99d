"""On which of several real nodes tasks, actors and bundles run, and the message if they fit on
none.
"""

from __future__ import annotations

from collections import Counter

import pytest

import phalanx
from phalanx import errors
from phalanx.cluster_utils import Cluster
from phalanx.util import placement_group, placement_group_table, remove_placement_group
from phalanx.util.scheduling_strategies import (
    In,
    NodeAffinitySchedulingStrategy,
    NodeLabelSchedulingStrategy,
    NotIn,
    PlacementGroupSchedulingStrategy,
)

PATIENCE_S = 120
NAMES = ("a", "b", "c")


@pytest.fixture(scope="module")
def nodes():
    """Yield the ids of three nodes by name. This process is a driver on "a". Each node has sixteen
    CPUs, so that idle workers of earlier tests do not fill a node.
    """
    cluster = Cluster()
    slots = dict.fromkeys(("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"), 4.0)
    ids = {
        name: cluster.add_node(
            num_cpus=16, resources=slots, labels={"name": name, "kind": kind}
        ).node_id
        for name, kind in zip(NAMES, ("x", "y", "y"), strict=True)
    }
    cluster.connect()
    cluster.wait_for_nodes(PATIENCE_S)
    yield ids
    cluster.shutdown()


@phalanx.remote(num_cpus=1)
def where():
    return phalanx.get_runtime_context().get_node_id()


@phalanx.remote(num_cpus=1)
class Place:
    def where(self):
        return phalanx.get_runtime_context().get_node_id()


@pytest.fixture
def settle(nodes):
    """Return a function that runs a task and an actor with these options, and returns the names of
    their nodes.
    """
    names = {node_id: name for name, node_id in nodes.items()}

    def settle(**options):
        actor = Place.options(**options).remote()
        found = phalanx.get(
            [where.options(**options).remote(), actor.where.remote()], timeout=PATIENCE_S
        )
        phalanx.kill(actor)
        return [names[node_id] for node_id in found]

    return settle


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("soft", [False, True])
def test_affinity_to_a_node(nodes, settle, name, soft):
    strategy = NodeAffinitySchedulingStrategy(nodes[name], soft=soft)
    assert settle(scheduling_strategy=strategy) == [name, name]


@pytest.mark.parametrize(
    ("hard", "soft", "names"),
    [
        ({"name": In("b")}, None, "b"),
        ({"kind": In("y"), "name": NotIn("b")}, None, "c"),
        ({"kind": In("y")}, {"name": In("c")}, "c"),
        ({"kind": In("y")}, {"name": In("a")}, "bc"),
    ],
)
def test_labels(settle, hard, soft, names):
    strategy = NodeLabelSchedulingStrategy(hard, soft=soft)
    assert set(settle(scheduling_strategy=strategy)) <= set(names)


def test_a_selector(settle):
    assert settle(label_selector={"name": "c"}) == ["c", "c"]
    assert settle(label_selector={"kind": "!y"}) == ["a", "a"]


def test_spread_uses_all_nodes_in_turn(nodes):
    refs = [where.options(scheduling_strategy="SPREAD").remote() for _ in range(12)]
    counts = Counter(phalanx.get(refs, timeout=PATIENCE_S))
    assert counts == dict.fromkeys(nodes.values(), 4)


def test_default_fills_this_node_first_and_spills_what_does_not_fit(nodes):
    assert phalanx.get(where.remote(), timeout=PATIENCE_S) == nodes["a"]
    actors = [Place.options(num_cpus=12).remote() for _ in range(3)]
    there = phalanx.get([actor.where.remote() for actor in actors], timeout=PATIENCE_S)
    assert set(there) == set(nodes.values())
    for actor in actors:
        phalanx.kill(actor)


@pytest.mark.parametrize(
    ("strategy", "bundles", "counts"),
    [
        ("STRICT_PACK", 4, {4}),
        ("STRICT_SPREAD", 3, {1}),
        ("PACK", 5, {4, 1}),
        ("SPREAD", 6, {2}),
    ],
)
def test_bundles(nodes, strategy, bundles, counts):
    group = placement_group([{strategy: 1}] * bundles, strategy=strategy)
    assert group.wait(PATIENCE_S)
    told = placement_group_table(group)["bundles_to_node_id"]
    assert set(Counter(told.values()).values()) == counts
    refs = [
        where.options(
            num_cpus=0,
            resources={strategy: 1},
            scheduling_strategy=PlacementGroupSchedulingStrategy(
                group, placement_group_bundle_index=index
            ),
        ).remote()
        for index in range(bundles)
    ]
    assert phalanx.get(refs, timeout=PATIENCE_S) == [told[index] for index in range(bundles)]
    remove_placement_group(group)


def test_children_stay_in_the_group_when_it_captures_them(nodes):
    @phalanx.remote(num_cpus=1)
    def parent():
        here = phalanx.get_runtime_context().get_node_id()
        return here, phalanx.get([where.remote() for _ in range(3)])

    group = placement_group([{"CPU": 2}], strategy="STRICT_PACK", _soft_target_node_id=nodes["c"])
    assert group.wait(PATIENCE_S)
    strategy = PlacementGroupSchedulingStrategy(group, placement_group_capture_child_tasks=True)
    here, children = phalanx.get(
        parent.options(scheduling_strategy=strategy).remote(), timeout=PATIENCE_S
    )
    assert set(children) == {here}
    remove_placement_group(group)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"scheduling_strategy": NodeAffinitySchedulingStrategy("ff" * 28, soft=False)},
         errors.TaskUnschedulableError),
        ({"label_selector": {"name": "nobody"}}, errors.GetTimeoutError),
        ({"num_cpus": 17}, errors.GetTimeoutError),
    ],
)  # fmt: skip
def test_what_can_run_nowhere(nodes, options, error):
    ref = where.options(**options).remote()
    with pytest.raises(error):
        phalanx.get(ref, timeout=0.5 if error is errors.GetTimeoutError else PATIENCE_S)
    phalanx.cancel(ref)


def test_a_bundle_index_that_there_is_not(nodes):
    group = placement_group([{"CPU": 1}])
    strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=1)
    with pytest.raises(ValueError, match="bundle"):
        where.options(scheduling_strategy=strategy).remote()
    remove_placement_group(group)
