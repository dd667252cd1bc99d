"""Queues reclaim resources from each other at the head: the final state, and the steps to it."""

from __future__ import annotations

import pytest
from tests.present import present
from tests.world.cluster import one_node, stored_world

from phalanx.api.new_manifests import job_manifest, manifest_objects
from phalanx.model.ids import GangId, GroupId
from phalanx.model.jobs.spec import JobSpec, Process, TaskGroup, Template
from phalanx.protocol.requests.gangs import CreateGang
from phalanx.protocol.requests.jobs import ApplyManifests
from phalanx_research.chaos.cache_check import differences


def world_of_two_queues(members=1, cpus=4):
    """Return a world of four CPUs with queues a and b, and a running gang `first` of a's."""
    world = one_node(4)
    world.queue("a")
    world.queue("b")
    world.gang("first", members, cpus=cpus, queue="a")
    world.rounds(5)
    return world


def test_two_queues_that_each_want_more_than_their_half_do_not_take_turns():
    world = world_of_two_queues(members=2, cpus=2)
    world.gang("second", 2, cpus=2, queue="b")
    world.rounds()
    assert (world.holding(), world.preempted) == (["first"], [])


def test_who_is_evicted_waits_until_the_other_has_started():
    world = one_node(8)
    world.queue("small", weight=1)
    world.queue("large", weight=5)
    world.gang("borrower", 1, cpus=3, queue="small")
    world.rounds(5)
    world.gang("owner", 2, cpus=3, queue="large")
    world.rounds()
    assert (world.holding(), world.preempted) == (["owner"], ["borrower"])


@pytest.mark.parametrize("mine", [1, 2])
def test_a_queue_keeps_what_it_deserves(mine):
    world = world_of_two_queues(cpus=mine)
    world.gang("second", 1, cpus=4, queue="b")
    world.rounds()
    assert (world.holding(), world.preempted) == (["first"], [])


def test_what_was_lent_is_taken_back():
    world = world_of_two_queues()
    world.gang("second", 1, cpus=2, queue="b")
    world.rounds()
    assert (world.holding(), world.preempted) == (["second"], ["first"])


HIERARCHY = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata:
  name: {name}
  annotations: {{volcano.sh/hierarchy: {path}, volcano.sh/hierarchy-weights: {weights}}}
"""


def world_of_paths():
    world = one_node(8)
    for path, weights in (("root/eng/dev", "1/3/1"), ("root/sci/dev", "1/1/1")):
        text = HIERARCHY.format(name=path.replace("/", "-"), path=path, weights=weights)
        manifests, warnings = manifest_objects(text)
        assert warnings == []
        world.ask(ApplyManifests(manifests))
    return world


def held(world, kind):
    return sum(name.startswith(kind) for name in world.holding())


def test_queues_with_paths_share_by_the_weights_of_their_steps():
    world = world_of_paths()
    for number in range(8):
        world.gang(f"eng{number}", 1, cpus=1, queue="root-eng-dev")
        world.gang(f"sci{number}", 1, cpus=1, queue="root-sci-dev")
    world.rounds()
    assert (held(world, "eng"), held(world, "sci")) == (6, 2)
    assert world.preempted == []


def test_queues_with_paths_take_back_what_their_steps_weigh():
    world = world_of_paths()
    for number in range(8):
        world.gang(f"sci{number}", 1, cpus=1, queue="root-sci-dev")
    world.rounds(10)
    assert held(world, "sci") == 8
    for number in range(8):
        world.gang(f"eng{number}", 1, cpus=1, queue="root-eng-dev")
    world.rounds()
    assert (held(world, "eng"), held(world, "sci")) == (6, 2)
    assert len(world.preempted) == 6


def test_the_order_of_queues_with_paths_is_that_of_their_steps():
    """Only one more gang fits. It goes to the branch of the tree that holds less relative to its
    weight.
    """
    world = world_of_paths()
    world.gang("sci-first", 1, cpus=2, queue="root-sci-dev")
    world.gang("blocker", 1, cpus=4, queue="default")
    world.rounds(10)
    world.gang("sci-next", 1, cpus=2, queue="root-sci-dev")
    world.gang("eng-next", 1, cpus=2, queue="root-eng-dev")
    world.rounds()
    assert "eng-next" in world.holding()
    assert world.scheduler.cache.truth(world.now, world.now).config.plugin_names().count("drf")


def promised(world):
    truth = world.scheduler.cache.truth(world.now, world.now)
    return sorted(group.name.partition("-")[0] for group in truth.podgroups if group.promised)


def test_a_promise_that_others_of_its_queue_have_taken_is_none_any_more():
    """If the promise stayed, its queue would come before all others for as long as the gang
    waits.
    """
    world = world_of_two_queues()
    world.gang("second", 1, cpus=2, queue="b")
    world.now += 1.0
    world.head.on_round(world.now)
    assert promised(world) == ["second"]
    world.gang("better", 1, cpus=4, queue="b", priority=1)
    world.rounds(5)
    assert (world.holding(), promised(world)) == (["better"], [])
    assert world.preempted == ["first"]


def test_a_promise_stands_until_the_room_is_free():
    world = world_of_two_queues()
    world.gang("second", 1, cpus=2, queue="b")
    for _ in range(3):
        world.now += 1.0
        world.gang(f"other{world.now}", 1, cpus=4, queue="a")  # a cycle for each
        world.head.on_round(world.now)
        assert promised(world) == ["second"]


def test_the_next_head_withdraws_a_promise_that_is_not_kept():
    world = stored_world()
    world.add("n")
    world.gang()
    world.cycles(2)
    world.run()
    world.ask(
        CreateGang(GangId(GroupId(b"other")), "other", "default", [{"CPU": 1.0}], min_members=1)
    )
    registry = world.scheduler.registry
    registry.gangs[GroupId(b"other")].is_promised = True
    registry.keep(registry.gangs[GroupId(b"other")])
    world.write()
    world.restart()
    world.add("n")
    other = world.scheduler.registry.gangs[GroupId(b"other")]
    assert other.is_promised
    world.cycles(2)
    assert not other.is_promised


def test_a_promise_goes_with_its_gang_and_leaves_the_next_one_of_its_name_alone():
    world = world_of_two_queues()
    command = Process(command=("true",), requests=(("CPU", 2.0),))
    group = TaskGroup(name="a", replicas=1, template=Template(processes=(command,)))
    job = JobSpec(name="second", queue="b", groups=(group,))
    world.ask(ApplyManifests([job_manifest(job)]))
    world.now += 1.0
    world.head.on_round(world.now)
    assert promised(world) == ["second"]
    scheduler = world.scheduler
    before = present(scheduler.jobs.gang_of("default/second"))
    scheduler.reservations.end(before, [0])
    assert scheduler.jobs.gang_of("default/second") is not before
    world.now += 1.0
    world.head.on_round(world.now)
    assert list(differences(scheduler)) == []
