"""Work that fits no node of the cluster is accepted if a pool could start nodes that it fits."""

from __future__ import annotations

from phalanx.head.nodes.expected import STAY_S, ExpectedNodes
from phalanx.head.nodes.record import NodeRecord
from phalanx.protocol.requests.cluster import NodePool

POOL = NodePool(["gpu-1", "gpu-2"], {"GPU": 4.0}, {"rack": "r1"})


def living(name: str) -> NodeRecord:
    return NodeRecord(node_id=f"id of {name}", prefix=b"", host="", port=0, name=name)


def test_a_pool_may_add_the_nodes_that_are_not_there() -> None:
    nodes = ExpectedNodes()
    assert nodes.records([]) == []
    nodes.declare([POOL], 100.0)
    assert [one.name for one in nodes.records([])] == ["gpu-1", "gpu-2"]
    (left,) = nodes.records([living("gpu-1"), living("other")])
    assert (left.name, left.whole, left.labels) == ("gpu-2", {"GPU": 4.0}, {"rack": "r1"})


def test_pools_are_forgotten_when_nobody_declares_them_any_more() -> None:
    nodes = ExpectedNodes()
    nodes.declare([POOL], 100.0)
    nodes.tick(100.0 + STAY_S - 1)
    assert nodes.records([])
    nodes.tick(100.0 + STAY_S)
    assert nodes.records([]) == []


def test_machines_boot_until_their_nodes_join() -> None:
    nodes = ExpectedNodes()
    nodes.declare([NodePool(["gpu-1", "gpu-2"], {}, {}, "gpu", ["gpu-1", "gpu-2"]), POOL], 100.0)
    assert nodes.booting([living("other")]) == {"gpu": ["gpu-1", "gpu-2"]}
    assert nodes.booting([living("gpu-2")]) == {"gpu": ["gpu-1"]}
    assert nodes.booting([living("gpu-1"), living("gpu-2")]) == {}


def test_a_new_declaration_replaces_the_last_one() -> None:
    nodes = ExpectedNodes()
    nodes.declare([POOL], 100.0)
    nodes.declare([], 200.0)
    assert nodes.records([]) == []
