"""Requests for leases that a node hands on to other nodes: when, to which, and for how much."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.node.leases.demands import Demands
from phalanx.node.leases.model import Demand
from phalanx.node.options import SpillOptions
from phalanx.node.spillback import MAX_BLIND, Spillback
from phalanx.node.waiting_tasks import WaitingTasks
from phalanx.protocol.cluster_messages import ViewRow
from phalanx.protocol.requests.node import ExplainTask
from phalanx.scheduler.devices.instances import NodeResources
from phalanx.scheduler.devices.sets import EMPTY, ResourceSet
from phalanx.scheduler.placement.cluster_nodes import ClusterNodes
from phalanx.scheduler.placement.placement_policy import read_placement_policy


def row(name, free=0.0, total=4.0, state="ALIVE", labels=None, last_lease=0):
    return ViewRow(
        node_id=name,
        prefix=name.encode(),
        host="h",
        port=1,
        state=state,
        total={"CPU": total},
        available={"CPU": free},
        labels=labels or {},
        last_lease=last_lease,
    )


def demand(count=1, cpus=1.0, owner=b"me:driver", number=1, **fields):
    place = ResourceSet.from_mapping({"CPU": cpus})
    fields = {"place": place, "hold": place, "order": number, **fields}
    return Demand(owner=owner, scheduling_class=number, count=count, **fields)


class Node:
    """Node "me" and the other nodes that it knows. `asked` has the latest requests that it handed
    on to them.
    """

    def __init__(self, *rows, **options):
        self.asked = {}
        self.over = []
        self.cluster = ClusterNodes()
        for one in rows:
            self.cluster.put(one)
        self.spilling = Spillback(
            "me",
            self.cluster,
            self,
            random.Random(1),
            SpillOptions(**options),
            is_mine=lambda owner: owner.startswith(b"me:"),
            nodes_of=lambda place: ["c", "d"] if place[1] < 0 else ["c"],
        )

    def ask(self, node_id, demand, count, seen):
        self.asked[node_id, demand.scheduling_class] = count

    def withdraw(self, node_id, owner, scheduling_class, is_over=False):
        self.asked.pop((node_id, scheduling_class), None)
        if is_over:
            self.over.append((node_id, scheduling_class))

    def plan(self, *demands, is_blind=False, now=0.0):
        self.spilling.plan(demands, now, is_blind)
        return {node: count for (node, _), count in self.asked.items()}


ME = row("me")
NEAR_B = {"near": "b", "bytes": 2**27}
CASES = {
    "nobody has room": ([row("a")], {}, demand(3), {}),
    "one has room for some": ([row("a", free=2)], {}, demand(3), {"a": 2}),
    "only what exceeds the threshold": ([row("a", free=4)], {"threshold": 2}, demand(3), {"a": 1}),
    "another one must do it": (
        [row("a", total=8)],
        {},
        demand(2, 8.0, can_run_here=False),
        {"a": 2},
    ),
    "nobody who drains": ([row("a", free=4, state="DRAINING")], {}, demand(1), {}),
    "others' demands never move on": ([row("a", free=4)], {}, demand(1, owner=b"a:x"), {}),
    "an actor is placed by the head": ([row("a", free=4)], {}, demand(1, actor=b"x"), {}),
    "a bundle is asked where it is": ([row("c")], {}, demand(2, group=(b"g", 0)), {"c": 2}),
    "any bundle, on every node of the group": (
        [row("c"), row("d")],
        {},
        demand(3, group=(b"g", -1)),
        {"c": 2, "d": 2},
    ),
    "where the arguments are": (
        [row("a", free=4), row("b", free=4)],
        {},
        demand(1, strategy=NEAR_B),
        {"b": 1},
    ),
    "where the arguments are, though more is used there than here": (
        [row("me", free=4), row("b", free=1)],
        {},
        demand(1, strategy=NEAR_B),
        {"b": 1},
    ),
    "where the arguments are, though it seems full": (
        [row("me", free=4), row("b")],
        {},
        demand(1, strategy=NEAR_B),
        {"b": 1},
    ),
    "not a node with arguments that drains": (
        [row("me", free=4), row("b", free=4, state="DRAINING")],
        {},
        demand(1, strategy=NEAR_B),
        {},
    ),
    "nor one that is not known to be alive": (
        [row("me", free=4)],
        {},
        demand(1, strategy=NEAR_B),
        {},
    ),
    "nor one that is too small": (
        [row("me", free=4), row("b", total=0.5)],
        {},
        demand(1, strategy=NEAR_B),
        {},
    ),
    "the node that is named": (
        [row("a", free=4), row("b")],
        {},
        demand(2, strategy={"node_id": "b"}),
        {"b": 2},
    ),
    "the node that is named and must not be busy, until its demand is failed": (
        [row("a", free=4), row("b")],
        {},
        demand(1, strategy={"node_id": "b", "fail_on_unavailable": True}),
        {"b": 1},
    ),
    "the labels that are named": (
        [row("a", free=4), row("b", free=1, labels={"x": "y"})],
        {},
        demand(1, strategy={"labels": [[("x", "In", ["y"])]]}),
        {"b": 1},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_who_is_asked(case):
    rows, options, wanted, asked = CASES[case]
    assert Node(ME, *rows, **options).plan(wanted) == asked


def test_a_full_node_with_the_arguments_is_asked_for_as_long_as_bringing_them_takes():
    node = Node(row("me", free=4), row("b"))
    wanted = demand(1, strategy=NEAR_B)
    assert (node.plan(wanted, now=0.1), wanted.here) == ({"b": 1}, 0)
    assert (node.plan(wanted, now=0.2), wanted.here) == ({}, 1)


@pytest.mark.parametrize(("queued", "there"), [(0, 2), (1, 1), (2, 0), (9, 0)])
def test_least_waiting_weighs_the_queue_there_against_the_transfer(queued, there):
    busy = row("b")
    busy.queue_length, busy.run_s = queued, 0.05
    node = Node(row("me", free=4), busy, placement=read_placement_policy("least-waiting"))
    wanted = demand(3, strategy=NEAR_B)
    assert node.plan(wanted) == ({"b": there} if there else {})
    assert wanted.here == 3 - there


def test_two_demands_do_not_count_on_the_same_room():
    node = Node(ME, row("a", free=3))
    node.plan(demand(2, number=1), demand(2, number=2))
    assert node.asked == {("a", 1): 2, ("a", 2): 1}


def test_the_threshold_is_the_nodes_whatever_waits():
    node = Node(ME, row("a", free=8), threshold=4)
    node.plan(demand(3, number=1), demand(3, number=2), demand(2, number=3))
    assert node.asked == {("a", 2): 2, ("a", 3): 2}
    node.plan(demand(3, number=1, can_run_here=False))
    assert node.asked == {("a", 1): 3}, "nothing waits for a node that it cannot run on"


def test_spread_takes_turns_and_counts_this_node():
    node = Node(row("me", free=2), row("a", free=2), row("b", free=2))
    wanted = demand(4, strategy={"name": "SPREAD"})
    asked = node.plan(wanted)
    assert wanted.here + sum(asked.values()) == 4
    assert {wanted.here, *asked.values()} <= {1, 2}


def test_a_slow_node_keeps_its_turns():
    node = Node(row("me", free=8), row("a", free=8), row("b", free=8))
    wanted = demand(12, strategy={"name": "SPREAD"})
    assert (node.plan(wanted), wanted.here) == ({"a": 4, "b": 4}, 4)
    wanted.count, wanted.here = 8, 0  # this node has started four workers at once
    assert (node.plan(wanted), wanted.here) == ({"a": 4, "b": 4}, 0)
    node.spilling.granted("a", wanted.owner, 1, wanted.hold, 1)
    wanted.count = 7
    told = {"a": 4, "b": 4}  # "a" knows what it gave, and is told nothing new
    assert (node.plan(wanted), wanted.here) == (told, 0)


def test_a_full_node_loses_its_turns():
    node = Node(row("me", free=0), row("a", free=4), row("b", free=4))
    wanted = demand(4, strategy={"name": "SPREAD"})
    assert node.plan(wanted) == {"a": 2, "b": 2}
    node.spilling.put(row("b", free=1))
    assert node.plan(wanted) == {"a": 3, "b": 1}
    node.spilling.remove("b")
    assert node.plan(wanted)["a"] == 4


def test_fewer_tasks_take_turns_from_the_nodes_with_most():
    node = Node(row("me", free=0), row("a", free=4), row("b", free=4))
    wanted = demand(5, strategy={"name": "SPREAD"})
    assert sorted(node.plan(wanted).values()) == [2, 3]
    wanted.count = 2
    assert node.plan(wanted) == {"a": 1, "b": 1}


def test_what_a_node_has_lent_is_taken_there_before_it_says_so():
    node = Node(ME, row("a", free=1))
    node.spilling.granted("a", b"me:driver", 1, demand(1).hold, 1)
    assert node.plan(demand(1, number=2)) == {}
    node.spilling.given_back("a")
    assert node.plan(demand(1, number=2)) == {"a": 1}


def test_a_lease_that_a_nodes_row_includes_is_not_counted_again():
    node = Node(ME, row("a", free=2, last_lease=3))
    node.spilling.granted("a", b"me:driver", 1, demand(1).hold, 3)
    assert node.plan(demand(2, number=2)) == {"a": 2}
    node.spilling.granted("a", b"me:driver", 1, demand(1).hold, 4)
    assert node.plan(demand(2, number=2)) == {"a": 1}


def test_what_is_met_is_withdrawn():
    node = Node(ME, row("a", free=2))
    wanted = demand(2)
    assert node.plan(wanted) == {"a": 2}
    node.spilling.granted("a", wanted.owner, 1, wanted.hold, 1)
    wanted.count -= 1
    assert node.plan(wanted) == {"a": 2}  # as it was told; it knows what it gave
    assert node.plan() == {}


def test_a_class_that_is_over_is_so_for_all_who_were_asked_or_lent():
    node = Node(ME, row("a", free=1), row("b"))
    node.plan(demand(1))
    node.spilling.granted("b", b"me:driver", 1, EMPTY, 1)
    node.spilling.class_over(b"me:driver", 1)
    assert (node.asked, sorted(node.over)) == ({}, [("a", 1), ("b", 1)])
    node.over.clear()
    node.spilling.class_over(b"me:driver", 1)
    assert node.over == []


def test_who_hears_no_news_asks_those_that_seemed_full():
    node = Node(ME, row("a"), row("small", total=0.5), row("b"))
    assert node.plan(demand(1)) == {}
    assert node.plan(demand(1), is_blind=True) == {"a": 1, "b": 1}
    assert node.plan(demand(1), is_blind=True) == {"a": 1, "b": 1}
    assert node.plan(demand(1)) == {}


def test_who_hears_no_news_asks_a_few_that_follow_in_the_ring():
    names = [f"{side}{i:02}" for side in ("a", "z") for i in range(10)]
    asked = Node(ME, *map(row, names)).plan(demand(1), is_blind=True)
    assert list(asked) == [f"z{i:02}" for i in range(MAX_BLIND)]


def test_a_node_that_is_forgotten_is_asked_again():
    node = Node(ME, row("a", free=1))
    node.plan(demand(1))
    node.asked.clear()
    node.plan(demand(1))
    assert node.asked == {}
    node.spilling.forget("a")
    assert node.plan(demand(1)) == {"a": 1}


def test_why_a_task_waits_names_what_each_filter_turned_away():
    rows = [row("a", labels={"rack": "1"}), row("b", free=2.0, labels={"rack": "2"}), ME]
    strict = read_placement_policy({"policy": "selector", "same_rack": "require"})
    node = Node(*rows, placement=strict)
    waiting = demand(1, cpus=3.0)
    assert str(node.spilling.why(waiting, 0.0)) == (
        "unavailable: 3 nodes with at most 2 CPU free, 3 asked"
    )
    node.spilling.granted("a", waiting.owner, 7, EMPTY, 1)  # its owner has another task there
    assert str(node.spilling.why(demand(1, cpus=2.0), 0.0)) == (
        "unavailable: 1 node in other racks than the rest of its job; "
        "2 nodes with at most 0 CPU free, 2 asked"
    )


def test_explain_names_the_node_that_holds_the_arguments():
    spilling = Node(row("me"), row("b")).spilling
    waiting = Demands()
    wanted = demand(1, strategy=NEAR_B)
    fields = {name: getattr(wanted, name) for name in ("owner", "place", "hold", "count")}
    waiting.want(0.0, 0, scheduling_class=1, strategy=wanted.strategy, **fields)
    resources = NodeResources({"CPU": 4})
    explain = WaitingTasks(waiting, spilling, resources, lambda: 0.0).explain
    asker: Any = SimpleNamespace(process=wanted.owner)
    explained = explain(asker, ExplainTask(scheduling_class=1, name="f"))
    assert [reason.sentence for reason in explained.reasons] == [
        "most bytes of its arguments lie on node b, which is asked first",
        "2 nodes with at most 0 CPU free, 1 asked",
    ]


def test_a_type_of_devices_that_nodes_lack_is_called_by_its_name():
    node = Node(row("a"), row("b"))
    place = ResourceSet.from_mapping({"accelerator_type:A100": 0.001})
    wanted = demand(1, place=place, hold=place)
    assert str(node.spilling.why(wanted, 0.0)) == "infeasible: 2 nodes without A100"
    waiting = Demands()
    fields = {name: getattr(wanted, name) for name in ("owner", "place", "hold", "count")}
    waiting.want(0.0, 0, scheduling_class=1, strategy=wanted.strategy, **fields)
    asker: Any = SimpleNamespace(process=wanted.owner)
    waits = WaitingTasks(waiting, Node().spilling, NodeResources({"CPU": 4}), lambda: 0.0)
    explained = waits.explain(asker, ExplainTask(scheduling_class=1, name="f"))
    assert [one.sentence for one in explained.reasons] == ["this node, the only one, has no A100"]


@pytest.mark.parametrize(
    ("known", "asks", "said"),
    [
        ((), 2.0, "has free 1 CPU of 2 asked"),
        ((), 5.0, "has 4 CPU of 5 asked"),
        ((ME,), 2.0, "has free 1 CPU of 2 asked"),
    ],
)
def test_explain_on_the_only_node_says_what_that_lacks(known, asks, said):
    """The cluster has one node. It does not know any other node; in one case it knows itself."""
    spilling = Node(*known).spilling
    waiting = Demands()
    wanted = demand(1, cpus=asks)
    fields = {name: getattr(wanted, name) for name in ("owner", "place", "hold", "count")}
    waiting.want(0.0, 0, scheduling_class=1, strategy=wanted.strategy, **fields)
    resources = NodeResources({"CPU": 4})
    resources.acquire(ResourceSet.from_mapping({"CPU": 3}))
    asker: Any = SimpleNamespace(process=wanted.owner)
    waits = WaitingTasks(waiting, spilling, resources, lambda: 0.0)
    explained = waits.explain(asker, ExplainTask(scheduling_class=1, name="f"))
    assert [one.sentence for one in explained.reasons] == [f"this node, the only one, {said}"]
