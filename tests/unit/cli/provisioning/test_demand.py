"""How many nodes of a pool are needed so that waiting work can start."""

from __future__ import annotations

import pytest

from phalanx.cli.provisioning.demand import nodes_for_demands, nodes_for_gangs, with_pool
from phalanx.cli.provisioning.pools import Pool
from phalanx.scheduler.cycle.config import parse_volcano
from phalanx.scheduler.cycle.registry import known_plugins
from phalanx.scheduler.cycle.specs import (
    NodeSpec,
    PodGroupSpec,
    QueueSpec,
    Shape,
    Snapshot,
    TaskSpec,
)

RULES = """
actions: "allocate"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: capacity
  - name: predicates
"""
POOL = Pool(name="cpu", up=("up",), down=("down",), resources={"CPU": 4.0}, max=10)


def waiting(*gangs: tuple[int, float], nodes: int = 0) -> Snapshot:
    """Return a cluster in which gangs of (members, CPUs of each member) wait."""
    whole = (("cpu", 4.0), ("pods", 100.0))
    return Snapshot(
        now=100.0,
        config=parse_volcano(RULES, known_plugins()),
        nodes=tuple(NodeSpec(name=f"n{i}", capacity=whole) for i in range(nodes)),
        queues=(QueueSpec(name="default"),),
        podgroups=tuple(
            PodGroupSpec(name=f"g{i}", queue="default", min_member=count, phase="Inqueue")
            for i, (count, _) in enumerate(gangs)
        ),
        tasks=tuple(
            TaskSpec(name=f"g{i}-{n}", podgroup=f"g{i}", shape=Shape(request=(("cpu", cpus),)))
            for i, (count, cpus) in enumerate(gangs)
            for n in range(count)
        ),
    )


@pytest.mark.parametrize(
    ("gangs", "nodes", "wanted"),
    [
        ((), 0, 0),
        (((1, 2.0),), 0, 1),
        (((1, 2.0),), 1, 0),
        (((2, 2.0),), 0, 1),
        (((3, 4.0),), 0, 3),
        (((3, 4.0),), 1, 2),
        (((2, 4.0), (4, 1.0)), 0, 3),
        (((1, 5.0),), 0, 0),
        (((11, 4.0),), 0, 0),
        (((11, 4.0), (1, 4.0)), 0, 1),
    ],
)
def test_the_fewest_nodes_with_which_most_gangs_start(gangs, nodes, wanted) -> None:
    assert nodes_for_gangs(waiting(*gangs, nodes=nodes), POOL, 10) == wanted


def test_nodes_that_boot_count_as_there() -> None:
    snapshot = with_pool(waiting((3, 4.0)), POOL, 2)
    assert nodes_for_gangs(snapshot, POOL, 8) == 1
    assert nodes_for_gangs(with_pool(snapshot, POOL, 1), POOL, 7) == 0


@pytest.mark.parametrize(
    ("demands", "free", "wanted"),
    [
        ([], [], 0),
        ([{"CPU": 1.0}] * 4, [], 1),
        ([{"CPU": 1.0}] * 5, [], 2),
        ([{"CPU": 1.0}] * 5, [{"CPU": 1.0}], 1),
        ([{"CPU": 8.0}], [], 0),
        ([{"GPU": 1.0}], [], 0),
        ([{"CPU": 4.0}] * 50, [], 10),
    ],
)
def test_tasks_and_actors_go_to_the_first_node_with_room(demands, free, wanted) -> None:
    assert nodes_for_demands(demands, free, POOL, 10) == wanted
