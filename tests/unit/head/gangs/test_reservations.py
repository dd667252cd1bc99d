"""The head reserves places of gangs on nodes: answers are late, repeated or lost, and nodes die
meanwhile.
"""

from __future__ import annotations

import pytest
from tests.world.cluster import joined_world

from phalanx.head.gangs.member_lifecycle import (
    TABLE,
    Arrived,
    Dismissed,
    Ended,
    Event,
    Evicted,
    Freed,
    Lost,
    MemberLifecycle,
    Moved,
    Placed,
    Refused,
    Released,
    Wanted,
)
from phalanx.head.gangs.member_states import (
    HELD,
    LEAVING,
    PLACELESS,
    PLACING,
    SHOWN,
    WAITING,
)
from phalanx.head.groups.give_backs import Ending
from phalanx.model.lifecycle import IllegalTransition
from phalanx.protocol.bundle_messages import CommitBundles, GiveBackBundles
from phalanx.scheduler.devices.sets import ResourceSet

from .test_parts import gang as plain_gang

EVENTS = (
    Wanted(), Dismissed(), Placed({0: "n1"}, 1), Arrived(5.0), Refused(), Lost(), Evicted(),
    Ended(), Released(2), Freed(), Moved("n0"),
)  # fmt: skip


def place(world, gang, choice):
    return world.scheduler.reservations.place(gang, choice)


def member_states(gang):
    return [member.state for member in gang.members]


def end(world, gang, *members):
    world.scheduler.reservations.end(gang, members)


def test_the_table_names_every_state_and_every_event():
    assert set(TABLE) == set(SHOWN)
    assert {type(event) for event in EVENTS} == set(Event.__args__)
    assert {kind for row in TABLE.values() for kind in row} == set(Event.__args__)
    assert {state for row in TABLE.values() for state, _ in row.values()} == set(TABLE)


@pytest.mark.parametrize("state", TABLE)
@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_a_member_moves_as_the_table_says_or_raises_with_its_story(state, event):
    gang = plain_gang(1, size=1)
    member = gang.members[0]
    member.state, member.node = state, "" if state in PLACELESS else "n0"
    lifecycle = MemberLifecycle()
    step = TABLE[state].get(type(event))
    if step is None:
        with pytest.raises(IllegalTransition, match=f"is {state}.*{type(event).__name__}"):
            lifecycle.handle(gang, [0], event)
        assert member.state == state
        return
    following = lifecycle.handle(gang, [0], event)
    assert (member.state, following) == (step[0], {step[1]: [0]} if step[1] else {})
    assert bool(member.node) == (member.state not in PLACELESS)


def test_an_illegal_event_tells_the_members_own_story():
    gang = plain_gang(1, size=2)
    lifecycle = MemberLifecycle()
    lifecycle.handle(gang, [0, 1], Placed({0: "n1", 1: "n2"}, 1))
    lifecycle.handle(gang, [1], Arrived(5.0))
    lifecycle.handle(gang, [0], Refused())
    with pytest.raises(IllegalTransition) as error:
        lifecycle.handle(gang, [0], Freed())
    assert str(error.value).endswith(
        "waiting: (Freed) cannot happen to it. Its story: waiting (Placed on n1, 1) -> "
        "placing (Refused) -> waiting"
    )


def test_an_answer_to_one_release_is_none_to_the_next():
    world = joined_world()
    world.add("n1", CPU=2)
    gang = world.gang("g", 2)
    place(world, gang, {0: "n1", 1: "n1"})
    world.run()
    end(world, gang, 0)
    (first,) = world.on_the_way
    end(world, gang, 1)
    world.on_the_way = [first]  # the second is lost
    world.run()
    assert world.held() == {(gang.gang_id, 1): [("n1", True)]}
    assert gang.gang_id in world.scheduler.registry.gangs
    world.heal(3)
    assert world.held() == {}
    assert gang.gang_id not in world.scheduler.registry.gangs


@pytest.fixture
def partly():
    """Return a gang that has its first bundle on n1 and has asked n2 for the second."""
    world = joined_world()
    world.add("n1", CPU=1)
    world.add("n2", CPU=1)
    gang = world.gang("g", 2, least=1)
    assert place(world, gang, {0: "n1"})
    world.run()
    assert place(world, gang, {1: "n2"})
    return world, gang


def test_a_member_goes_on_when_those_it_joins_are_lost_and_it_is_enough_without_them(partly):
    world, gang = partly
    world.kill("n1")
    assert member_states(gang) == [WAITING, PLACING]
    world.run()
    assert member_states(gang) == [WAITING, HELD]
    world.check_settled()


def test_members_on_their_way_give_back_when_they_are_too_few_without_those_that_were_lost():
    world = joined_world()
    for name in ("n1", "n2", "n3"):
        world.add(name, CPU=1)
    gang = world.gang("g", 3, least=2)
    assert place(world, gang, {0: "n1", 1: "n2"})
    world.run()
    assert place(world, gang, {2: "n3"})
    world.kill("n1")
    world.kill("n2")
    world.heal(3)
    assert member_states(gang) == [WAITING] * 3
    assert world.held() == {}
    world.add("n4", CPU=1)
    world.heal(3)
    assert member_states(gang).count(HELD) == 2
    world.check_settled()


@pytest.mark.parametrize("restarts", [False, True])
def test_a_gang_that_was_refused_more_says_what_it_loses(partly, restarts):
    world, gang = partly
    if restarts:
        world.restart()
        gang = world.scheduler.registry.gangs[gang.gang_id]
    else:
        other = {0: ResourceSet.from_mapping({"CPU": 1})}
        world.nodes["n2"].bundles.prepare(b"other", 1, other, world.now)
        world.run()
    assert member_states(gang) == [HELD, WAITING]
    shown = world.head.group_table.get(gang.gang_id)
    assert (shown.state, list(shown.nodes)) == ("CREATED", ["n1", ""])
    world.kill("n1")
    assert list(shown.nodes) == ["", ""]
    assert member_states(gang) == [WAITING, WAITING]


def test_a_bundle_that_is_back_on_its_node_is_not_given_back_with_others():
    world = joined_world()
    world.add("a", CPU=3)
    gang = world.gang("g", 3, least=1)
    place(world, gang, {0: "a", 1: "a"})
    prepare = world.on_the_way.pop()
    world.deliver(prepare)
    world.on_the_way.clear()  # what the node answered is lost
    other = {0: ResourceSet.from_mapping({"CPU": 1})}
    world.scheduler.reservations.attempts.prepared("a", gang.gang_id, gang.number, False, world.now)
    assert member_states(gang) == [WAITING] * 3
    world.nodes["a"].bundles.prepare(b"other", 1, other, world.now)
    world.nodes["a"].bundles.give_back(b"other", 1, [0])
    place(world, gang, {1: "a"})
    world.run()
    assert member_states(gang) == [WAITING, HELD, WAITING]
    world.heal()
    assert gang.members[1].state == HELD
    world.check_settled()


def test_a_bundle_that_is_to_leave_keeps_its_grace_when_its_node_comes_again():
    world = joined_world()
    node = world.add("a", CPU=1)
    gang = world.gang("g", 1, grace_s=30.0)
    place(world, gang, {0: "a"})
    world.run()
    world.scheduler.applier.evict(gang, [0], "preempt")
    (first,) = world.on_the_way
    world.on_the_way.clear()
    world.join(node)
    world.pass_time(2.0)
    again = [letter.message for letter in world.on_the_way]
    assert {(m.warn, m.grace_s) for m in again if isinstance(m, GiveBackBundles)} == {(True, 30.0)}
    assert first.message in again
    assert Ending(warn=True, grace_s=30.0) != Ending()
    world.run()
    assert node.bundles.inventory().held == []
    assert member_states(gang) == [WAITING]


def test_a_member_that_is_freed_twice_is_freed_once():
    world = joined_world()
    world.add("a", CPU=1)
    gang = world.gang("g", 1)
    place(world, gang, {0: "a"})
    world.run()
    world.scheduler.applier.evict(gang, [0], "preempt")
    world.deliver(world.on_the_way.pop())
    (gone,) = world.on_the_way
    assert member_states(gang) == [LEAVING]
    world.deliver(gone)
    world.deliver(gone)
    assert member_states(gang) == [WAITING]


@pytest.mark.parametrize("when", ["asked", "prepared", "held"])
@pytest.mark.parametrize("how", ["evicted", "ended", "lost", "restarted", "removed"])
def test_whatever_happens_to_a_member_on_its_way_nodes_and_head_agree_in_the_end(when, how):
    """Each case is one event before the member runs. After it no resources may stay reserved."""
    world = joined_world()
    world.add("a", CPU=2)
    world.add("b", CPU=2)
    gang = world.gang("g", 2)
    place(world, gang, {0: "a", 1: "b"})
    if when != "asked":
        for one in [world.on_the_way.pop(0), world.on_the_way.pop(0)]:
            world.deliver(one)
        for one in [world.on_the_way.pop(0), world.on_the_way.pop(0)]:
            world.deliver(one)
    if when == "held":
        world.run()
    if how == "evicted":
        world.scheduler.applier.evict(gang, [0, 1], "preempt")
    elif how == "ended":
        end(world, gang, 0)
    elif how == "lost":
        world.kill("b")
        world.add("c", CPU=2)
    elif how == "restarted":
        world.restart()
    else:
        world.head.group_table.remove(gang.gang_id, world.now)
    world.heal()
    world.check_settled()
    there = world.scheduler.registry.gangs.get(gang.gang_id)
    assert (there is None) == (how == "removed")
    if there is not None:
        assert all(state in (HELD, "done") for state in member_states(there))
        end(world, there, 0, 1)
    world.heal(5)
    assert world.held() == {}
    assert not world.scheduler.registry.gangs


def test_what_is_left_of_a_gang_that_lost_a_node_on_the_way_does_not_begin():
    """In an earlier version the gang was recorded as begun with two of three members, and evicted
    in the same moment.
    """
    world = joined_world()
    for name in ("n0", "n1", "n2"):
        world.add(name, CPU=1.0)
    gang = world.gang("g", 3)
    place(world, gang, {0: "n0", 1: "n1", 2: "n2"})
    while not any(isinstance(letter.message, CommitBundles) for letter in world.on_the_way):
        world.deliver(world.on_the_way.pop(0))
    world.kill("n2")
    world.run()
    begun = [row for row in world.head.events._of_gangs.rows() if row["event"] == "MembersPlaced"]
    assert begun == []
    assert HELD not in member_states(gang)
    world.check_settled()
