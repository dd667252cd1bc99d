"""Orders to nodes are sent only after the rows that they follow from are written, and the next head
continues from these rows.
"""

from __future__ import annotations

import pytest
from tests.world.cluster import World, gang_id, stored_world

from phalanx.head.actors.table import ActorRecord
from phalanx.model.ids import GroupId
from phalanx.model.jobs.spec import Process, TaskGroup, Template
from phalanx.protocol.actor_messages import PlaceActor, WithdrawActor
from phalanx.protocol.bundle_messages import (
    BundlesGone,
    CommitBundles,
    EndMember,
    GiveBackBundles,
    MemberNews,
    PrepareBundles,
    StartMember,
)
from phalanx.protocol.requests.jobs import CommandJob

PROCESS = Process(command=("true",), requests=(("CPU", 1.0),))
MEMBER = TaskGroup(name="a", template=Template(processes=(PROCESS,), restart="Never"))


def kinds(world):
    return [type(message) for _, message in world.told]


@pytest.fixture
def world():
    """Return a world with a job of one member, whose node has been asked to prepare."""
    world = stored_world()
    world.add("n1")
    world.job(MEMBER)
    world.cycles()
    assert kinds(world) == [PrepareBundles]
    return world


def started(world):
    """Start the member's commands; return the order that started them."""
    for _ in range(2):
        world.run()
        world.write()
    [(_, order)] = world.told
    world.hear("n1", MemberNews(order.group, order.index, order.attempt, log="x"))
    world.write()
    world.forget()
    return order


def test_what_begins_waits_until_it_is_written(world):
    for order in (CommitBundles, StartMember):
        world.run()
        assert kinds(world) == []
        world.write()
        assert kinds(world) == [order]


def test_what_ends_waits_until_it_is_written(world):
    order = started(world)
    world.ask(CommandJob("job", "cancel"))
    assert kinds(world) == []
    world.write()
    assert kinds(world) == [EndMember]
    world.forget()
    world.hear("n1", MemberNews(order.group, order.index, order.attempt, 143, "", "x"))
    assert kinds(world) == []
    world.write()
    assert kinds(world) == [GiveBackBundles]


def test_without_a_store_nothing_waits():
    world = World()
    world.add("n1")
    world.job(MEMBER)
    world.cycles()
    world.run()
    assert kinds(world) == [StartMember]


def test_an_attempt_does_not_begin_after_it_was_given_up(world):
    world.run()
    world.ask(CommandJob("job", "suspend"))
    world.write()
    assert CommitBundles not in kinds(world)


def test_members_do_not_begin_when_too_few_are_left_once_it_is_written():
    world = stored_world()
    world.add("n1")
    world.add("n2")
    world.gang(members=2, least=2)
    world.cycles()
    world.run()
    world.kill("n1")
    world.write()
    assert kinds(world)[1:] == [GiveBackBundles], "the other node died"
    world.run()
    assert world.states() == ["pending"] * 2


def test_a_job_hears_of_a_member_that_was_lost_while_another_was_on_its_way():
    world = stored_world()
    world.add("n1")
    world.add("n2")
    world.job(TaskGroup(name="a", replicas=2, template=MEMBER.template), min_available=2)
    world.cycles()
    gang = world.gang_of()
    while world.states(gang) != ["running"] * 2:
        if not world.run():
            world.write()
    nodes = [member.node for member in gang.members]
    for index, node in enumerate(nodes):
        world.hear(node, MemberNews(gang.gang_id, index, 1, log="x"))
    world.add("n3")
    world.kill(nodes[0])
    world.cycles()
    world.run()
    world.kill(nodes[1])
    world.add("n4")
    world.gang(members=2, least=2)  # there is something to decide
    world.cycles(3)
    world.write()
    world.cycles(3)
    while StartMember not in kinds(world):
        if not world.run():
            world.write()
            world.cycles()
    [job] = world.scheduler.jobs.table.all()
    assert [(m.state, m.attempt > 1) for m in job.members] == [("Pending", True)] * 2


def test_a_head_that_dies_at_once_starts_no_attempt_a_second_time(world):
    world.write()
    while StartMember not in kinds(world):
        if not world.run():
            world.write()  # only what it waits for
    world.restart()
    world.kill("n1")
    world.add("n2")
    world.cycles()
    for _ in range(2):
        world.run()
        world.write()
    assert [m.attempt for _, m in world.told if type(m) is StartMember] == [2]


def test_a_gang_keeps_its_ports_when_the_head_dies_before_it_is_placed(world):
    [(_, asked)] = world.told
    world.run()
    world.write()
    world.restart()
    world.add("n1")
    assert asked.ports
    assert world.gang_of().ports == asked.ports


@pytest.fixture
def evicted(world):
    """Return a world in which a member was ordered to end before the head restarted."""
    started(world)
    gang = world.gang_of()
    world.evict([0], gang)
    world.write()
    assert kinds(world) == [GiveBackBundles]
    world.restart()
    return world


def test_a_job_hears_that_its_leaving_member_was_lost_with_its_node(evicted):
    evicted.add("n2")
    evicted.cycles(2)
    assert kinds(evicted) == [], "its node may still come back"
    evicted.kill("n1")
    evicted.cycles(3)
    for _ in range(2):
        evicted.run()
        evicted.write()
    assert [m.attempt for _, m in evicted.told if type(m) is StartMember] == [2]


def test_a_member_that_was_leaving_does_not_begin_elsewhere_before_it_has_left(evicted):
    evicted.add("n2")
    evicted.add("n1")
    evicted.now += 5.0
    evicted.head.on_tick(evicted.now)
    evicted.cycles(3)
    evicted.write()
    assert kinds(evicted) == [GiveBackBundles]
    evicted.run()
    evicted.cycles(3)
    for _ in range(2):
        evicted.run()
        evicted.write()
    assert [m.attempt for _, m in evicted.told if type(m) is StartMember] == [2]


def test_a_job_hears_of_members_whose_node_was_lost_as_the_head_died(world):
    """The head had written that the node is dead, but none of the consequences."""
    started(world)
    world.kill("n1")
    changes, _ = world.journal.records[0]
    assert [table for table, _ in changes] == ["nodes"]
    world.journal.storage.apply(changes)
    world.restart()
    world.add("n2")
    world.cycles(3)
    for _ in range(2):
        world.run()
        world.write()
    assert [m.attempt for _, m in world.told if type(m) is StartMember] == [2]


def test_a_gang_of_tasks_that_was_leaving_waits_for_its_nodes():
    world = stored_world()
    world.add("n1")
    world.gang(members=1, least=1)
    world.cycles()
    for _ in range(2):
        world.run()
        world.write()
    world.evict([0])
    world.write()
    [(_, asked)] = world.told
    world.restart()
    assert world.states() == ["leaving"]
    world.add("n1")
    world.hear("n1", BundlesGone(GroupId(gang_id("g")), asked.attempt))
    assert world.states() == ["pending"]


def test_an_actor_is_ordered_and_withdrawn_once_it_is_written_where():
    world = stored_world()
    world.add("n1")
    record = ActorRecord(
        actor=b"actor", owner=bytes(16), job=b"", creation=b"", class_name="A", place={"CPU": 1.0}
    )
    world.head.actor_table.register(record)
    assert kinds(world) == []
    world.write()
    assert kinds(world) == [PlaceActor]
    world.forget()
    world.head.actor_table.kill(b"actor", no_restart=True)
    assert kinds(world) == []
    world.write()
    assert kinds(world) == [WithdrawActor]
