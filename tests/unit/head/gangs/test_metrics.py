"""Counts of a head about cycles, gangs and jobs, and its use of the nodes' counts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from tests.principals import OWNER
from tests.world.cluster import joined_world

from phalanx.observe.metrics.definitions import Numbers, Sample
from phalanx.protocol.asking import Ask
from phalanx.protocol.report_messages import NodeNumbers
from phalanx.protocol.requests.metrics import GetMetrics, MetricsNews, MetricsSince
from phalanx.protocol.requests.queues import CreateQueue, QueueFields
from phalanx.protocol.requests.request import encode_request

CPUS = {"CPU": 4.0}


@pytest.fixture
def world() -> Any:
    world = joined_world()
    for name in ("a", "b"):
        world.add(name, **CPUS)
    return world


NOTHING = MetricsSince()


def told(world: Any, since: MetricsSince = NOTHING) -> MetricsNews:
    news: MetricsNews = world.ask(GetMetrics(since))
    return news


def own(world: Any) -> dict[str, dict[tuple[str, ...], Any]]:
    return {
        one.name.removeprefix("phalanx_"): {s.labels: s.value for s in one.samples}
        for one in told(world).own
    }


def times(world: Any, name: str) -> float:
    """Return the number of values in a histogram."""
    found = [one for one in told(world).own if one.name == f"phalanx_{name}"]
    return sum(sum(sample.counts or ()) for one in found for sample in one.samples)


def test_a_gang_that_finds_its_places(world: Any) -> None:
    world.gang("g", 3)
    world.heal(3)
    found = own(world)
    assert found["placements_total"] == {(): 3}
    assert found["schedule_cycles_total"]["placed",] == 1
    assert found["gangs_considered_total"] == {(): 1}
    assert times(world, "gang_start_seconds") == 1
    assert times(world, "schedule_cycle_seconds") == times(world, "snapshot_seconds") >= 1
    assert ("allocate",) in found["schedule_action_seconds"]
    assert {plugin for plugin, _ in found["schedule_plugin_seconds"]} > {"gang", "priority"}
    assert "preemptions_total" not in found


def test_a_gang_that_has_to_go(world: Any) -> None:
    world.ask(CreateQueue("lab", QueueFields(weight=1)))
    world.gang("low", 8, queue="lab", priority=0)
    world.heal(3)
    world.gang("high", 8, queue="lab", priority=9)
    world.heal(20)
    found = own(world)
    assert found["preemptions_total"] == {("lab", "preempt"): 1}
    assert found["evicted_members_total"] == {("lab", "preempt"): 8}
    assert found["placements_total"] == {(): 16}


def test_a_node_that_says_no(world: Any) -> None:
    world.gang("g", 8)
    world.cycle()
    world.kill("b")
    world.heal(3)
    assert own(world)["plan_rejections_total"] == {("refused",): 1}


def test_placement_groups_are_counted_by_state(world: Any) -> None:
    world.gang("g", 2)
    world.heal(2)
    assert own(world)["placement_groups"] == {("created",): 1}


def said(**values: float) -> NodeNumbers:
    found = [
        Numbers(f"phalanx_{name}", [Sample(("found",), value)]) for name, value in values.items()
    ]
    return NodeNumbers(msgspec.msgpack.encode(found))


def test_what_nodes_say_is_told_once(world: Any) -> None:
    node = world.nodes["a"]
    world.head.on_message(node.prefix, said(plan_rejections_total=1))
    first = told(world)
    assert [(row.node_id, row.numbers) for row in first.nodes] == [
        (node.name, said(plan_rejections_total=1).numbers)
    ]
    assert first.is_new
    again = told(world, first.since)
    assert (again.is_new, again.nodes, again.gone_nodes) == (False, [], [])
    world.head.on_message(node.prefix, said(plan_rejections_total=2))
    assert len(told(world, again.since).nodes) == 1
    assert told(world, MetricsSince(head=1.0, version=1_000)).is_new


def test_what_a_dead_node_counted_for_the_cluster_stays_counted(world: Any) -> None:
    node = world.nodes["a"]
    world.head.on_message(node.prefix, said(plan_rejections_total=5, frames_rejected_total=3))
    since = told(world).since
    world.kill("a")
    news = told(world, since)
    assert news.gone_nodes == ["a"]
    assert own(world)["plan_rejections_total"] == {("found",): 5}
    assert "frames_rejected_total" not in own(world)


def test_requests_are_timed_by_name(world: Any) -> None:
    body = encode_request(GetMetrics(MetricsSince()))
    sent: list[Any] = []
    visitor: Any = SimpleNamespace(send=sent.append, principal=OWNER, origin="process 1")
    for kind in (GetMetrics.kind, 9_999):
        world.head.answering.answer_visitor(visitor, Ask(1, kind, body))
    assert len(sent) == 2
    assert own(world)["rpc_seconds"].keys() == {("GetMetrics",), ("unknown",)}


def test_bytes_that_are_no_numbers_harm_nobody(world: Any) -> None:
    world.head.on_message(world.nodes["a"].prefix, NodeNumbers(b"\xc1"))
    world.kill("a")
    assert told(world).gone_nodes == ["a"]
