"""Placement groups of a cluster: where bundles are placed, what waits and why, and what happens at
deaths and restarts.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.present import present
from tests.unit.head.groups_world import GroupsWorld, amounts

from phalanx.head.groups.record import GroupRow, facts, restored
from phalanx.head.groups.table import KEEP_REMOVED
from phalanx.model.ids import GroupId
from phalanx.model.lifecycle import CREATED, PENDING, PREPARED, REMOVED, RESCHEDULING
from phalanx.protocol.bundle_messages import (
    CommitBundles,
    Committed,
    GiveBackBundles,
    PrepareBundles,
    Prepared,
)

ONE = {"CPU": 1.0}


def three_nodes(**options):
    world = GroupsWorld(**options)
    for name in "abc":
        world.add(name, CPU=4, GPU=1, labels={"zone": "east" if name == "c" else "west"})
    return world


Options = dict[str, Any]
Asked = tuple[str, list[dict[str, float]], Options, str]
PLACED: dict[str, Asked] = {
    # strategy, bundles, further options -> nodes, and in which state when it cannot be placed
    "pack": ("PACK", [ONE] * 3, {}, "a a a"),
    "pack overflows": ("PACK", [{"CPU": 3.0}] * 2, {}, "a b"),
    "spread": ("SPREAD", [ONE] * 3, {}, "a b c"),
    "spread reuses": ("SPREAD", [ONE] * 4, {}, "a b c a"),
    "strict pack": ("STRICT_PACK", [{"CPU": 2.0}] * 2, {}, "a a"),
    "strict pack, target": ("STRICT_PACK", [ONE] * 2, {"soft_target": "b"}, "b b"),
    "strict pack, target is gone": ("STRICT_PACK", [ONE], {"soft_target": "z"}, "a"),
    "strict spread": ("STRICT_SPREAD", [ONE] * 3, {}, "a b c"),
    "selectors": ("PACK", [ONE] * 2, {"selectors": [{"zone": "east"}, {"zone": "west"}]}, "c a"),
    "domain": ("PACK", [{"CPU": 3.0}] * 2, {"domain_label": "zone"}, "a b"),
}


@pytest.mark.parametrize("at_once", [True, False], ids=["one process", "messages"])
@pytest.mark.parametrize("name", PLACED)
def test_bundles_find_their_nodes(name, at_once):
    strategy, bundles, options, nodes = PLACED[name]
    world = three_nodes(at_once=at_once)
    world.create("g", *bundles, strategy=strategy, **options)
    world.run()
    assert world.state("g") == CREATED
    assert world.where("g") == nodes
    world.check_settled()
    assert [state for _, state in world.seen] == [PENDING, PREPARED, CREATED]


NEVER: dict[str, Asked] = {
    "strict spread": ("STRICT_SPREAD", [ONE] * 4, {}, "4 bundles on 3 nodes"),
    "strict pack": ("STRICT_PACK", [{"CPU": 3.0}] * 2, {}, "no one node could hold all bundles"),
    "too large": ("PACK", [{"CPU": 5.0}], {}, "3 nodes with at most 4 CPU in total, 5 asked"),
    "too much": (
        "PACK",
        [{"CPU": 4.0}] * 4,
        {},
        r"it asks for 16 CPU in all .* 12 CPU",
    ),
    "label": ("SPREAD", [ONE], {"selectors": [{"zone": "north"}]}, "3 nodes with other labels"),
    "domain": ("PACK", [{"CPU": 3.0}] * 3, {"domain_label": "zone"}, "one zone could not hold all"),
}


@pytest.mark.parametrize("name", NEVER)
def test_what_can_never_be_says_why_and_waits_for_a_node(name):
    strategy, bundles, options, words = NEVER[name]
    world = three_nodes(at_once=True)
    world.create("g", *bundles, strategy=strategy, **options)
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(world.known(b"g").infeasible)
    assert world.groups.table()[0]["stats"]["scheduling_state"] == "INFEASIBLE"
    assert world.groups.refusal((b"g", 0), amounts({}))[1] == ""
    world.create("behind", ONE)
    assert world.state("behind") == CREATED, "it keeps nobody from being placed"
    world.add("d", CPU=16, labels={"zone": "north"})
    assert world.state("g") == CREATED


def test_a_raised_total_makes_feasible():
    world = GroupsWorld(at_once=True)
    node = world.add("a", CPU=1)
    world.create("g", {"CPU": 2})
    assert world.known(b"g").infeasible
    node.resources.set_total("CPU", 2)
    world.report(node)
    assert world.state("g") == CREATED


def test_one_that_waits_blocks_nobody_and_comes_first_when_there_is_room():
    world = three_nodes(at_once=True)
    world.create("large", *[{"CPU": 4}] * 2)
    world.create("huge", *[{"CPU": 4}] * 3)
    world.create("late", {"CPU": 4})
    assert [world.state(g) for g in ("huge", "late")] == [PENDING, CREATED]
    assert world.groups.get(b"huge").waits_for, "and says why"
    world.create("later", {"CPU": 4})
    world.groups.remove(b"large", world.now)
    world.pass_time(0.01)
    assert world.state("later") == CREATED
    world.groups.remove(b"late", world.now)
    world.groups.remove(b"later", world.now)
    world.pass_time(0.01)
    assert world.state("huge") == CREATED
    world.check_settled()


def test_a_refusal_gives_the_others_back_and_backs_off():
    world = three_nodes()
    world.nodes["b"].resources.acquire(amounts({"CPU": 4}))  # nobody was told yet
    world.create("g", *[{"CPU": 3}] * 2)
    world.run()
    group = world.groups.get(b"g")
    assert not group.is_under_way
    assert world.held() == {}
    assert group.backoff_s == pytest.approx(0.1)
    world.groups.resources_changed(world.now + 0.05)
    assert not group.is_under_way, "a refusal is not shortened by news of others"
    world.pass_time(0.1)
    world.run()
    assert world.state("g") == CREATED
    assert world.where("g") == "a c"
    world.check_settled()


KINDS: dict[str, Any] = {
    "prepare": PrepareBundles,
    "prepared": Prepared,
    "commit": CommitBundles,
    "committed": Committed,
}


@pytest.mark.parametrize("lost", KINDS)
def test_a_lost_message_is_sent_again(lost):
    world = three_nodes()
    world.create("g", *[ONE] * 3, strategy="SPREAD")
    is_lost = False
    while world.on_the_way:
        message = world.on_the_way.pop(0)
        if type(message.message) is KINDS[lost] and not is_lost:
            is_lost = True
            continue
        world.deliver(message)
    assert is_lost
    assert world.state("g") != CREATED
    world.heal(2)
    assert world.state("g") == CREATED
    world.check_settled()


def test_a_removal_that_is_lost_is_sent_again():
    world = three_nodes()
    world.create("g", *[ONE] * 2, strategy="SPREAD")
    world.run()
    world.groups.remove(b"g", world.now)
    world.on_the_way.clear()
    assert world.was_freed == []
    world.heal(2)
    assert world.was_freed == [b"g"]
    assert world.held() == {}


def test_what_was_not_confirmed_in_time_is_reserved_anew():
    world = three_nodes()
    world.create("g", *[ONE] * 2, strategy="STRICT_SPREAD")
    while world.state("g") != PREPARED:
        world.deliver(world.on_the_way.pop(0))
    world.on_the_way.clear()
    world.now += 40  # the head was busy: the nodes gave the bundles back
    for node in world.nodes.values():
        node.bundles.tick(world.now)
        assert node.resources.available()["CPU"] == 4
        world.report(node)
    world.heal(3)
    assert world.state("g") == CREATED
    assert (("g", RESCHEDULING)) in world.seen
    world.check_settled()


DEATHS = {
    # strategy -> where before, where after `a` died
    "PACK": ("a a", "b b"),
    "SPREAD": ("a b", "c b"),
    "STRICT_PACK": ("a a", "b b"),
    "STRICT_SPREAD": ("a b", "c b"),
}


@pytest.mark.parametrize("at_once", [True, False], ids=["one process", "messages"])
@pytest.mark.parametrize("strategy", DEATHS)
def test_only_what_was_lost_is_placed_anew(strategy, at_once):
    world = three_nodes(at_once=at_once)
    world.create("g", ONE, ONE, strategy=strategy)
    world.run()
    before, after = DEATHS[strategy]
    assert world.where("g") == before
    world.network.counts.clear()
    world.kill("a")
    world.run()
    assert world.where("g") == after
    assert world.state("g") == CREATED
    assert GiveBackBundles not in world.network.counts
    world.check_settled()
    assert [s for _, s in world.seen][3:] == [RESCHEDULING, PREPARED, CREATED]


def test_a_group_that_lost_bundles_goes_before_those_that_never_had_any():
    world = GroupsWorld(at_once=True)
    for name in "ab":
        world.add(name, CPU=4)
    world.create("first", {"CPU": 4})
    world.create("second", {"CPU": 4})
    world.create("waiting", {"CPU": 4})
    world.kill("b")
    assert [world.state(g) for g in ("second", "waiting")] == [RESCHEDULING, PENDING]
    assert world.groups.nodes_of(GroupId(b"second")) == []
    world.groups.remove(GroupId(b"first"), world.now)
    world.pass_time(0.01)
    assert [world.state(g) for g in ("second", "waiting")] == [CREATED, PENDING]


def test_a_group_stays_in_its_domain_as_long_as_a_bundle_does():
    world = GroupsWorld(at_once=True)
    for name, zone in (("a", "x"), ("b", "x"), ("c", "y"), ("d", "y"), ("e", "x")):
        world.add(name, CPU=1, labels={"zone": zone})
    world.create("g", ONE, ONE, strategy="STRICT_SPREAD", domain_label="zone")
    assert world.where("g") == "c d"
    world.kill("c")
    assert world.where("g") == " d"
    assert "zone=y" in world.known(b"g").infeasible
    assert "zone=y" in present(world.groups.refusal((GroupId(b"g"), 0), amounts({})))[0]
    for left in (1, -1):
        assert world.groups.refusal((GroupId(b"g"), left), amounts({})) is None
    world.kill("d")
    assert world.where("g") in ("a b", "a e", "b e")


def test_a_death_in_the_middle_of_an_attempt():
    for steps in range(12):
        world = three_nodes()
        world.create("g", *[ONE] * 3, strategy="SPREAD")
        for _ in range(steps):
            if world.on_the_way:
                world.deliver(world.on_the_way.pop(0))
        world.kill("a")
        world.heal(3)
        assert world.state("g") == CREATED
        world.check_settled()


def test_names_creators_and_removal():
    world = three_nodes(at_once=True)
    world.create("n", ONE)
    with pytest.raises(ValueError, match=r"^The placement group name 'n' is taken\.$"):
        world.create("n", ONE)
    assert world.groups.named("", "n").group == b"n"
    world.create("stays", ONE, detached=True)
    world.create("other", ONE, creator=b"you")
    world.groups.creator_gone(b"me", world.now)
    assert [world.state(g) for g in ("n", "stays", "other")] == [REMOVED, CREATED, CREATED]
    assert world.groups.named("", "n") is None
    assert world.groups.remove(b"n", world.now) is None
    assert world.groups.remove(b"unknown", world.now) is None
    assert world.was_freed == [b"n"]


def test_an_unplaced_group_is_free_at_once_when_it_is_removed():
    world = GroupsWorld(at_once=True)
    world.create("g", ONE)
    world.groups.remove(GroupId(b"g"), world.now)
    assert world.was_freed == [b"g"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"strategy": "PILE"}, "unknown bundle strategy 'PILE'"),
        ({"selectors": [{}, {}]}, "2 selectors for 1 bundles"),
        ({"selectors": [{"zone": "in()"}]}, "zone: '' in 'in()' is not a label value"),
        ({"soft_target": "a"}, "a soft target node goes with STRICT_PACK, not PACK"),
    ],
)
def test_what_no_cluster_could_place_is_refused(fields, words):
    world = three_nodes(at_once=True)
    with pytest.raises(ValueError, match=words.replace("(", r"\(").replace(")", r"\)")):
        world.create("g", ONE, **fields)
    assert world.groups.get(b"g") is None
    assert world.groups.named("", "g") is None


def test_refusals_of_a_place():
    world = three_nodes(at_once=True)
    world.create("g", ONE, {"CPU": 2})
    refusal = world.groups.refusal
    assert refusal((b"g", 0), amounts(ONE)) is None
    assert refusal((b"g", -1), amounts({"CPU": 2})) is None
    assert refusal((b"g", 0), amounts({"CPU": 2}))[1] == "invalid_value"
    assert "has 2 bundles, and none has index 2" in refusal((b"g", 2), amounts(ONE))[0]
    assert refusal((b"x", 0), amounts({}))[1] == "task_group_removed"
    world.groups.remove(b"g", world.now)
    assert refusal((b"g", 0), amounts({}))[1] == "task_group_removed"


def test_the_table():
    world = three_nodes(at_once=True)
    world.create("g", ONE, {"CPU": 1, "GPU": 1}, strategy="STRICT_SPREAD")
    world.create("w", *[{"GPU": 1}] * 3)
    assert world.groups.table() == [
        {
            "placement_group_id": b"g".hex(),
            "name": "g",
            "bundles": {0: {"CPU": 1.0}, 1: {"CPU": 1.0, "GPU": 1.0}},
            "bundles_to_node_id": {0: "b", 1: "a"},
            "strategy": "STRICT_SPREAD",
            "state": CREATED,
            "stats": {
                "scheduling_state": "FINISHED",
                "scheduling_attempt": 1,
                "end_to_end_creation_latency_ms": 0.0,
            },
        },
        {
            "placement_group_id": b"w".hex(),
            "name": "w",
            "bundles": {at: {"GPU": 1.0} for at in range(3)},
            "bundles_to_node_id": dict.fromkeys(range(3), ""),
            "strategy": "PACK",
            "state": PENDING,
            "stats": {
                "scheduling_state": "NO_RESOURCES",
                "scheduling_attempt": 1,
                "end_to_end_creation_latency_ms": 0.0,
            },
        },
    ]
    assert world.groups.nodes_of(b"g") == ["b", "a"]
    assert world.groups.nodes_of(b"g", 1) == ["a"]
    assert world.groups.nodes_of(b"w") == world.groups.nodes_of(b"x") == []


def test_bundles_of_removed_groups_wait_for_nothing():
    world = three_nodes(at_once=True)
    world.create("placed", ONE)
    world.create("large", {"CPU": 64.0})
    assert list(world.groups.waiting_bundles()) == [amounts({"CPU": 64.0})]
    for group in (b"placed", b"large"):
        world.groups.remove(group, world.now)
    assert list(world.groups.waiting_bundles()) == []


def test_removed_groups_are_forgotten_in_time():
    world = GroupsWorld(at_once=True)
    for at in range(KEEP_REMOVED + 5):
        world.create(f"g{at}", ONE)
        world.groups.remove(GroupId(b"g%d" % at), world.now)
    assert len(world.groups.table()) == KEEP_REMOVED


# ---- a head that restarts --------------------------------------------------------------------


def test_a_restarted_head_goes_on_from_any_moment():
    for steps in range(14):
        world = three_nodes()
        world.create("g", *[ONE] * 3, strategy="SPREAD")
        world.create("d", ONE, detached=True)
        for _ in range(steps):
            if world.on_the_way:
                world.deliver(world.on_the_way.pop(0))
        world.restart()
        world.heal(3)
        assert [world.state(g) for g in "gd"] == [CREATED, CREATED]
        assert world.groups.named("", "g").group == b"g"
        world.check_settled()


def test_a_removal_that_the_head_forgot_is_made_good_when_the_node_is_back():
    world = three_nodes()
    world.create("g", ONE)
    world.run()
    world.groups.remove(b"g", world.now)
    world.restart()
    world.heal(2)
    assert world.held() == {}


def test_a_node_that_does_not_come_back_to_the_new_head_loses_its_bundles():
    world = three_nodes()
    world.create("g", ONE, ONE, strategy="STRICT_SPREAD")
    world.run()
    del world.nodes["a"]
    world.restart()
    assert world.state("g") == CREATED, "it may still come"
    world.heal(40)
    assert world.state("g") == CREATED
    assert world.where("g") == "c b"


def test_a_node_without_what_it_should_hold_gets_it_again():
    world = three_nodes()
    world.create("g", ONE)
    world.run()
    world.nodes["a"].bundles.give_back(b"g", 99, [0])
    world.nodes["a"].bundles.settle()
    world.join(world.nodes["a"])
    world.heal(2)
    assert world.state("g") == CREATED
    world.check_settled()


def test_each_namespace_has_names_of_its_own():
    world = three_nodes(at_once=True)
    world.create("n", ONE, namespace="a")
    assert world.groups.named("b", "n") is None
    world.create("m", ONE, namespace="b")
    world.groups.remove(b"n", world.now)
    world.create("n", ONE, namespace="b")
    assert world.groups.named("a", "n") is None
    assert world.groups.named("b", "n").group == b"n"
    assert world.groups.named("b", "m").group == b"m"


def test_how_often_nodes_were_looked_for_and_how_long_it_took():
    world = GroupsWorld(at_once=True)
    group = world.create("g", {"CPU": 2})
    assert facts(group)["stats"] == {
        "scheduling_state": "INFEASIBLE",
        "scheduling_attempt": 1,
        "end_to_end_creation_latency_ms": 0.0,
    }
    world.pass_time(1.5)
    world.add("a", CPU=2)
    assert world.state("g") == CREATED
    stats = facts(group)["stats"]
    assert stats["scheduling_state"] == "FINISHED"
    assert stats["scheduling_attempt"] == group.tries > 1
    took_ms = stats["end_to_end_creation_latency_ms"]
    assert took_ms == pytest.approx(1500)

    later, _ = restored(group.row(), 1)
    assert facts(later)["stats"]["end_to_end_creation_latency_ms"] == took_ms


def test_a_group_on_a_node_that_the_store_does_not_know():
    world = GroupsWorld(at_once=True)
    row = GroupRow(
        group=GroupId(b"g"),
        name="g",
        strategy="PACK",
        bundles=[ONE],
        selectors=[],
        soft_target=None,
        domain_label=None,
        domain=None,
        creator=b"me",
        detached=True,
        state=CREATED,
        nodes=["gone"],
        unconfirmed=[],
        attempt=3,
    )
    world.groups.restore([row], 0.0)
    assert world.state("g") == RESCHEDULING
    world.add("a", CPU=1)
    assert world.where("g") == "a"


@pytest.mark.parametrize("ok", [True, False])
def test_an_answer_to_an_attempt_that_is_over_changes_nothing(ok):
    world = three_nodes()
    world.create("g", {"CPU": 3}, {"CPU": 3})
    group = world.groups.get(b"g")
    world.groups.attempts.prepared("a", b"g", 1, False, 0.0)
    world.pass_time(0.2)
    attempt = world.groups.attempts.get(b"g")
    assert (attempt.number, group.attempt_number) == (2, 2)
    for node in "abc":
        world.groups.attempts.prepared(node, b"g", 1, ok, 0.2)
        world.groups.attempts.committed(node, b"g", 2, ok, 0.2)
    assert attempt.awaiting == set(attempt.bundles)
    world.run()
    assert world.state("g") == CREATED
    world.groups.attempts.committed("a", b"g", 2, ok, 0.2)
    world.groups.returned("a", b"g", 1)
    assert world.state("g") == CREATED
    world.check_settled()
