"""Before each order that begins work, and when it is asked, the head tells a node which of the
node's reports it has read last.
"""

from __future__ import annotations

from typing import Any

from tests.world.cluster import World, joined_world

from phalanx.model.jobs.spec import Process, TaskGroup, Template
from phalanx.protocol.bundle_messages import StartMember
from phalanx.protocol.membership_messages import Expelled, Joined
from phalanx.protocol.report_messages import NodeReport, ReportHeard


def heard(world: World) -> list[Any]:
    """Return what the node has got from the head: names of reports, and orders that begin work."""
    world.run()
    orders = world.nodes["n"].orders
    return [one for one in orders if isinstance(one, ReportHeard | StartMember)]


def report(world: World, **fields: Any) -> None:
    node = world.nodes["n"]
    world.head.on_message(node.prefix, NodeReport(**{"available": {"CPU": 1.0}, **fields}))


def test_a_joining_node_learns_for_how_long_it_may_begin_work() -> None:
    world = joined_world()
    world.add("n")
    joined = [m for _, m in world.told if isinstance(m, Joined)]
    assert [one.lease for one in joined] == [world.head.nodes.limits.lease]


def test_a_report_that_asks_is_named_and_another_is_not() -> None:
    world = joined_world()
    world.add("n")
    report(world, number=4)
    report(world)
    assert heard(world) == []
    report(world, number=5, is_asking=True)
    assert heard(world) == [ReportHeard(5)]


def test_a_report_with_another_number_alone_is_no_news() -> None:
    world = joined_world()
    world.add("n")
    report(world, number=1)
    before, _ = world.head.nodes.changes_since(0)
    report(world, number=2, is_asking=True)
    assert world.head.nodes.changes_since(before)[1] == []


def start_member(world: World) -> None:
    """Start a job with one member."""
    process = Process(command=("true",), requests=(("CPU", 1.0),))
    world.job(TaskGroup(name="a", template=Template(processes=(process,), restart="Never")))
    for _ in range(3):
        world.cycles()
        world.write()
        world.run()
        world.write()


def test_the_latest_report_is_named_before_an_order_that_begins_work() -> None:
    world = joined_world()
    world.add("n").about = {"number": 7}
    start_member(world)
    named, order = heard(world)
    assert named == ReportHeard(7)
    assert isinstance(order, StartMember)


def test_nothing_is_named_to_a_node_that_numbers_nothing() -> None:
    world = joined_world()
    world.add("n")
    start_member(world)
    assert [type(one) for one in heard(world)] == [StartMember]


def test_a_dead_nodes_report_is_not_named() -> None:
    world = joined_world()
    world.add("n")
    world.head.nodes.leave("n", "it ended")
    world.on_the_way.clear()
    report(world, number=5, is_asking=True)
    assert [type(m) for _, m in world.told] == [Expelled]
