"""The nodes on which actors are placed or wait, and what happens to actors when nodes die."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from tests.unit.head.groups_world import GroupsWorld, amounts

from phalanx.head.actors.node_choice import ActorNodeChoice
from phalanx.head.actors.table import CONFIRMATION_S, ActorRecord, ActorTable
from phalanx.model.holds import DRAIN, Hold
from phalanx.model.lifecycle import ALIVE, DEAD, PENDING_CREATION, RESTARTING
from phalanx.protocol.actor_messages import ActorHere
from phalanx.protocol.report_messages import NodeReport
from phalanx.scheduler.devices.cards import Cards
from phalanx.scheduler.placement.explaining import explain_outcome
from phalanx.scheduler.placement.placement_policy import PlacementPolicy, read_placement_policy
from phalanx.scheduler.placement.seeded import Seeded
from phalanx.scheduler.placement.selector.tried import IN_VAIN_AFTER_S

ONE = {"CPU": 1.0}


class Actors(GroupsWorld):
    """A cluster in one process with a table of actors. The table's effects are recorded."""

    def __init__(self):
        super().__init__(at_once=True)
        self.placing = ActorNodeChoice(
            self.directory.cluster, self.groups, Seeded(7), PlacementPolicy()
        )
        self.table = ActorTable(self)
        self.log = []

    def place_actor(self, record):
        choice = self.placing.place(record, "a", 0.0)
        self.log.append(f"place {choice.node}")
        self.table.sent(record.actor, choice.node)

    def restarts(self, record, is_crash):
        pass

    def withdraw_actor(self, record):
        self.placing.forget(record.actor)
        self.log.append("withdraw")

    def placed(self, actor, worker, node):
        is_wanted = self.table.placed(actor, worker, node)
        if is_wanted:
            self.placing.placed(actor)
            self.log.append("create")
        return is_wanted

    def end_worker(self, record, reason, force):
        self.log.append("end")

    def ending(self, record):
        self.log.append("is to end")

    def publish(self, record, watchers):
        self.log.append(record.state)

    def record(self, name="x", place=None, hold=None, **fields):
        return ActorRecord(
            actor=name.encode(),
            owner=b"owner",
            job=b"j",
            creation=b"c",
            class_name="A",
            place=ONE if place is None else place,
            hold=ONE if hold is None else hold,
            **fields,
        )

    def place(self, name="x", owner="a", **fields):
        return self.placing.place(self.record(name, **fields), owner, 0.0)


@pytest.fixture
def world():
    world = Actors()
    world.add("a", CPU=2, labels={"zone": "east"})
    world.add("b", CPU=2, labels={"zone": "west"})
    world.add("c", CPU=4, GPU=1, labels={"zone": "west"})
    return world


IS_WEST, IS_NORTH = [["zone", "In", ["west"]]], [["zone", "In", ["north"]]]

PICKED: dict[str, tuple[dict[str, Any], str]] = {
    "its owner's node": ({}, "a"),
    "its owner's node has no GPU": ({"place": {"GPU": 1}}, "c"),
    "hard affinity": ({"strategy": {"node_id": "b", "soft": False}}, "b"),
    "soft affinity": ({"strategy": {"node_id": "b", "soft": True}}, "b"),
    "soft affinity to nobody": ({"strategy": {"node_id": "z", "soft": True}}, "a"),
    "labels": ({"strategy": {"labels": [IS_WEST]}}, "b"),
    "labels, the second tier": ({"strategy": {"labels": [IS_NORTH, IS_WEST]}}, "b"),
    "labels and GPU": ({"strategy": {"labels": [IS_WEST]}, "place": {"GPU": 1}}, "c"),
}


@pytest.mark.parametrize("name", PICKED)
def test_picks(world, name):
    fields, node = PICKED[name]
    choice = world.place(**fields)
    assert (choice.node, choice.is_available) == (node, True)


NO: dict[str, tuple[dict[str, Any], str, str]] = {
    "hard affinity to nobody": (
        {"strategy": {"node_id": "z", "soft": False}},
        "^node z does not exist or is not alive$",
        "actor_unschedulable",
    ),
    "hard affinity, too large": (
        {"strategy": {"node_id": "b", "soft": False}, "place": {"CPU": 3}},
        "node b can never hold 3 CPU: .*at most 2 CPU in total, 3 asked",
        "actor_unschedulable",
    ),
    "hard affinity, busy": (
        {"strategy": {"node_id": "busy", "soft": False, "fail_on_unavailable": True}},
        "node busy is busy, and the strategy does not let the actor wait",
        "actor_unschedulable",
    ),
    "hard affinity, draining": (
        {"strategy": {"node_id": "drain", "soft": False}},
        "^node drain drains$",
        "actor_unschedulable",
    ),
    "labels": ({"strategy": {"labels": [IS_NORTH]}}, "no node has labels that match", ""),
    "too large": (
        {"place": {"CPU": 9}},
        re.escape("it asks for 9 CPU and the largest node has 4 CPU"),
        "",
    ),
    "labels and too large": (
        {"place": {"GPU": 1}, "strategy": {"labels": [[["zone", "In", ["east"]]]]}},
        "infeasible: .* with other labels",
        "",
    ),
    "group": ({"strategy": {"group": "00", "bundle": 0}}, "removed", "task_group_removed"),
    "no strategy": ({"strategy": {"name": "NEAR"}}, "'NEAR'", "actor_unschedulable"),
}


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (
            {"GPU": 1, "gpu_cards": 1, "gpu_memory": 90 * 2**30},
            "it asks for 90.0 GiB of gpu_memory and the largest node has 80.0 GiB of gpu_memory",
        ),
        (
            {"GPU": 3, "gpu_cards": 3, "gpu_memory": 50 * 2**30},
            "it asks for 3 GPU and the largest node has 2 GPU",
        ),
        (
            {"GPU": 0.5, "gpu_mps": 1},
            "no node can share GPUs by MPS: that takes nvidia-cuda-mps-control, and jobs that run "
            "as the node's user and not as their submitters",
        ),
        (
            {"GPU": 2, "gpu_cards": 2, "gpu_memory": 50 * 2**30},
            "it asks for 2 GPUs with 50.0 GiB of memory each, and the node with the most of them "
            "has 1 such GPU (its GPUs: 1 with 80.0 GiB, 1 with 40.0 GiB)",
        ),
    ],
)
def test_an_actor_that_no_gpu_can_hold_does_not_wait(world, place, said):
    node = world.add("gpus", GPU=2, gpu_cards=2, gpu_memory=80 * 2**30)
    node.about = {"cards": Cards(memory=(80 * 2**30, 40 * 2**30))}
    world.report(node)
    choice = world.place(place=place)
    assert (choice.node, choice.code, choice.reason) == ("", "actor_unschedulable", said)


@pytest.mark.parametrize("name", NO)
def test_noes(world, name):
    world.add("busy", CPU=1).resources.acquire(amounts(ONE))
    world.add("drain", CPU=1)
    world.directory.hold("drain", DRAIN, Hold(reason="maintenance"))
    world.report(world.nodes["busy"])
    fields, words, error = NO[name]
    choice = world.place(**fields)
    assert choice.node == ""
    assert choice.code == error
    assert re.search(words, choice.reason), choice.reason


def test_many_do_not_pile_up_on_one_node(world):
    picks = [world.place(f"x{at}").node for at in range(8)]
    assert {name: picks.count(name) for name in "abc"} == {"a": 2, "b": 2, "c": 4}


def test_actors_that_ask_for_nothing_are_spread_at_random(world):
    picks = {world.place(f"x{at}", place={}, hold={}).node for at in range(40)}
    assert picks == {"a", "b", "c"}


def test_spread_takes_turns(world):
    picks = [world.place(f"x{at}", strategy={"name": "SPREAD"}).node for at in range(6)]
    assert picks == list("abcabc")


def fill(world, **queues):
    """Make all nodes full. On each of them as many demands wait as `queues` says, of a second
    each.
    """
    for name in world.nodes:
        queued = [({"CPU": 1.0}, queues.get(name, 0))]
        world.directory.report(world.now, name, NodeReport(available={}, queued=queued, run_s=1.0))


def test_where_nobody_has_room_it_waits_where_it_waits_least(world):
    fill(world, a=5, b=3, c=4)
    picks = [world.place(f"x{at}") for at in range(4)]
    assert [choice.node for choice in picks] == ["b", "b", "c", "a"]
    assert not any(choice.is_available for choice in picks)


def test_one_that_waits_goes_where_room_came_first(world):
    fill(world, a=1)
    first, second = world.place("x"), world.place("y")
    assert {first.node, second.node} <= {"b", "c"}
    assert world.placing.better(0.0) == []
    world.report(world.nodes["a"])
    moves = world.placing.better(0.0)
    assert [(record.actor, choice.node) for record, choice in moves] == [(b"x", "a"), (b"y", "a")]
    assert world.placing.better(0.0) == []
    world.placing.forget(b"x")
    world.placing.placed(b"y")
    world.report(world.nodes["c"])
    assert world.placing.better(0.0) == []


def test_what_fits_nowhere_goes_to_a_node_that_joins(world):
    world.place("x", place={"CPU": 16})
    assert world.placing.better(0.0) == []
    world.add("d", CPU=16)
    assert [(r.actor, c.node) for r, c in world.placing.better(0.0)] == [(b"x", "d")]


def in_group(index):
    return {"strategy": {"group": b"g".hex(), "bundle": index}}


def test_actors_in_a_group_go_to_its_bundles(world):
    world.create("g", ONE, {"CPU": 2}, strategy="STRICT_SPREAD")
    small, large = world.groups.get(b"g").nodes
    assert world.place("1", **in_group(0)).node == small
    assert world.place("2", **in_group(-1)).node == large, "the first bundle is taken"
    assert world.place("3", **in_group(-1)).node == large
    waiting = world.place("4", **in_group(-1))
    assert (waiting.node, waiting.is_available) == (small, False)
    world.placing.forget(b"3")
    assert [(r.actor, c.node) for r, c in world.placing.better(0.0)] == [(b"4", large)]
    assert world.place("5", place={"CPU": 3}, **in_group(-1)).code == "invalid_value"
    world.groups.remove(b"g", 0.0)
    assert [c.code for _, c in world.placing.better(0.0)] == ["task_group_removed"] * 3


def test_actors_wait_for_their_group(world):
    world.create("g", {"CPU": 16})
    choice = world.place("x", **in_group(0))
    assert (choice.node, choice.code) == ("", "")
    assert "at most 4 CPU in total" in choice.reason
    world.add("d", CPU=16)
    assert [c.node for _, c in world.placing.better(0.0)] == ["d"]


# ---- nodes that die, heads that restart ------------------------------------------------------


def test_the_actors_of_a_node_that_died_restart_elsewhere(world):
    for name, restarts in (("x", 1), ("y", 0)):
        world.table.register(world.record(name, max_restarts=restarts))
        assert world.placed(name.encode(), b"w" + name.encode(), "a")
        world.table.ready(name.encode(), b"w" + name.encode(), 7)
    world.log.clear()
    world.kill("a")
    world.table.node_gone("a", "it did not report for 15 s")
    assert world.log == [RESTARTING, "place b", DEAD]
    assert world.table.get(b"x").restarts == 1
    assert world.table.get(b"y").reason == (
        "The actor died because its node has died: node a: it did not report for 15 s."
    )
    assert world.placed(b"x", b"late", "a") is False
    assert world.placed(b"x", b"w2", "b") is True


def test_one_that_waits_on_a_node_that_died_is_placed_anew_without_a_restart(world):
    world.table.register(world.record())
    world.kill("a")
    world.table.node_gone("a", "gone")
    assert world.log == ["place a", "place b"]
    assert world.table.get(b"x").restarts == 0


def restarted(world):
    rows = [world.table.row(record) for record in world.table.all()]
    world.table = ActorTable(world)
    world.log.clear()
    world.table.restore(rows, 100.0)
    return world.table


def test_a_restarted_head_knows_its_actors(world):
    for name in "xyz":
        world.table.register(
            msgspec.structs.replace(
                world.record(name, detached=True, max_restarts=1), name=name, namespace="s"
            )
        )
    world.placed(b"x", b"wx", "a")
    world.table.ready(b"x", b"wx", 7)
    world.placed(b"y", b"wy", "a")
    world.table.kill(b"z", no_restart=True)
    table = restarted(world)
    assert world.log == []
    assert table.names("s") == [("s", "x"), ("s", "y")]
    assert [table.get(a).state for a in (b"x", b"y", b"z")] == [ALIVE, PENDING_CREATION, DEAD]
    strangers = table.confirm("a", here({b"x": b"wx", b"y": b"wy", b"z": b"wz", b"?": b"w"}))
    assert strangers == [b"z", b"?"]
    table.tick(100.0 + CONFIRMATION_S)
    assert world.log == []
    table.ready(b"y", b"wy", 8)
    assert world.log == [ALIVE]


def here(workers, incarnation=0):
    """Return the report of a joining node about its actors."""
    return {actor: ActorHere(worker, incarnation) for actor, worker in workers.items()}


def test_who_is_not_confirmed_has_died(world):
    for name in "xy":
        world.table.register(world.record(name, max_restarts=1))
        world.placed(name.encode(), b"w", "a")
        world.table.ready(name.encode(), b"w", 7)
    table = restarted(world)
    table.confirm("a", here({b"y": b"w"}))
    assert table.get(b"x").state == RESTARTING
    assert table.get(b"x").reason == "the node a does not have it any more"
    assert table.get(b"y").state == ALIVE
    table = restarted(world)
    table.tick(99.0 + CONFIRMATION_S)
    assert table.get(b"y").state == ALIVE
    table.tick(100.0 + CONFIRMATION_S)
    assert table.get(b"y").state == RESTARTING


def test_one_that_a_lost_node_may_have_made_is_another_incarnation_at_its_next_place(world):
    """The previous head had announced the actor as alive, but could not write that to the store."""
    world.table.register(world.record(max_restarts=0))
    table = restarted(world)
    assert (table.get(b"x").node, table.get(b"x").worker) == ("a", b"")
    table.tick(100.0 + CONFIRMATION_S)
    assert table.get(b"x").state == PENDING_CREATION
    assert (table.get(b"x").incarnation, table.get(b"x").restarts) == (1, 0)


def test_a_worker_of_a_life_that_was_given_up_is_not_taken_for_the_next(world):
    world.table.register(world.record(max_restarts=1))
    world.placed(b"x", b"w", "a")
    world.table.ready(b"x", b"w", 7)
    world.table.worker_died(b"x", b"w", "its node was away")
    record = world.table.get(b"x")
    assert (record.incarnation, record.worker, record.node) == (1, b"", "a")
    table = restarted(world)
    assert table.confirm("a", here({b"x": b"w"})) == [b"x"]
    assert world.log[-1].startswith("place")
    table.ready(b"x", b"w", 7)
    assert table.get(b"x").state != ALIVE
    old_order = table.confirm(table.get(b"x").node, here({b"x": b""}))
    assert old_order == [b"x"]
    record = table.get(b"x")
    assert table.confirm(record.node, here({b"x": b"new"}, record.incarnation)) == []
    table.ready(b"x", b"new", 8)
    assert table.get(b"x").state == ALIVE


def test_killed_before_it_was_confirmed(world):
    world.table.register(world.record())
    world.placed(b"x", b"w", "a")
    table = restarted(world)
    table.kill(b"x", no_restart=True)
    table.tick(100.0 + CONFIRMATION_S)
    assert table.get(b"x").state == DEAD
    assert table.confirm("a", here({b"x": b"w"})) == [b"x"]


def test_workers_found_while_the_head_was_away(world):
    for name in "xyz":
        world.table.register(world.record(name, place={"CPU": 0.5}, hold={"CPU": 0.5}))
    table = restarted(world)
    assert table.confirm("a", here({b"x": b"new", b"y": b""})) == []
    assert table.get(b"x").worker == b"new"
    assert (table.get(b"y").worker, table.get(b"y").node) == (b"", "a")
    assert world.log == ["place a"], "z is nowhere: placed anew"
    assert table.confirm("a", here({b"x": b"other"})) == [b"x"]


def test_one_that_no_node_was_found_for_is_placed_by_the_new_head(world):
    world.table.register(world.record(place={"CPU": 16}))
    restarted(world)
    assert world.log == ["place "]


def test_a_row_is_a_copy(world):
    world.table.register(world.record())
    row = world.table.row(world.table.get(b"x"))
    world.table.watch(b"x", b"late", 0.0)
    world.placed(b"x", b"w", "a")
    assert (row.watchers, row.worker) == ([b"owner"], b"")


def test_under_the_selector_one_whose_worker_starts_is_not_in_its_own_way(world):
    placing = ActorNodeChoice(
        world.directory.cluster,
        world.groups,
        Seeded(7),
        read_placement_policy({"policy": "selector"}),
    )
    first = placing.place(world.record("x", place={"CPU": 2}, hold={"CPU": 2}), "a", 0.0).node
    assert placing.better(1.0) == []
    assert placing.better(IN_VAIN_AFTER_S - 0.1) == []
    ((_, choice),) = placing.better(IN_VAIN_AFTER_S)
    assert choice.node != first, "it was asked in vain"


def test_why_an_actor_waits(world):
    asks_for = {"place": {"GPU": 2}, "hold": {"GPU": 2}}
    why = world.placing.why(world.record("x", **asks_for), "a", 0.0)
    told = explain_outcome("actor", "x", why)
    assert str(told).splitlines()[:3] == [
        "actor x waits",
        "  - 3 nodes with at most 1 GPU in total, 2 asked",
        "    to change that: ask for less, or add larger nodes",
    ]
    assert told.reasons[0].detail == {"resource": "GPU", "asked": 2.0, "most": 1.0}


def test_actors_that_hold_nothing_spread_over_all_nodes(world):
    nodes = {world.place(f"x{i}", hold={}).node for i in range(20)}
    assert nodes == {"a", "b", "c"}
    assert {world.place(f"y{i}").node for i in range(2)} == {"a"}


def test_an_actor_that_holds_nothing_goes_where_there_is_room_for_it(world):
    for node in ("a", "b"):
        for i in range(2):
            world.place(f"{node}{i}", owner=node)
    assert {world.place(f"x{i}", hold={}).node for i in range(9)} == {"c"}
