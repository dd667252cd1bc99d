"""News of a job's members that is on its way while the head sends them an order."""

from __future__ import annotations

import pytest
from tests.world.cluster import gang_id, one_node

from phalanx.api.new_manifests import job_manifest
from phalanx.model.jobs.spec import JobSpec, Process, TaskGroup, Template
from phalanx.protocol.bundle_messages import EndMember, GiveBackBundles, MemberNews
from phalanx.protocol.requests.cluster import GetHealth, ListNodes
from phalanx.protocol.requests.gangs import EndMembers, Explain
from phalanx.protocol.requests.jobs import ApplyManifests, CommandJob, GetJob


def test_a_member_that_fails_while_it_is_evicted_starts_again_elsewhere():
    world = one_node(2)
    process = Process(command=("true",), requests=(("CPU", 2.0),))
    template = Template(processes=(process,), restart="OnFailure", grace_s=1.0)
    spec = JobSpec(name="job", groups=(TaskGroup(name="a", template=template),))
    world.ask(ApplyManifests([job_manifest(spec)]))
    world.rounds(5)
    [order] = world.started()
    world.hear("n0", MemberNews(order.group, order.index, order.attempt, log="a"))
    world.gang("urgent", 1, cpus=2, queue="default", priority=5)
    while GiveBackBundles not in [type(letter.message) for letter in world.on_the_way]:
        world.now += 1.0
        world.cycle()
    world.hear("n0", MemberNews(order.group, order.index, order.attempt, 1, "exit code 1", "a"))
    world.rounds(5)
    assert world.holding() == ["urgent"]
    world.ask(EndMembers(gang_id("urgent"), [0]))
    world.rounds(5)
    assert [o.attempt > order.attempt for o in world.started()] == [False, True]


def test_a_member_that_crashes_in_a_loop_is_ordered_to_rest():
    world = one_node(2)
    process = Process(command=("true",), requests=(("CPU", 2.0),))
    template = Template(processes=(process,), restart="OnFailure")
    spec = JobSpec(name="job", groups=(TaskGroup(name="a", template=template, max_retry=9),))
    world.ask(ApplyManifests([job_manifest(spec)]))
    world.rounds(5)
    for _ in range(4):
        order = world.started()[-1]
        world.hear("n0", MemberNews(order.group, order.index, order.attempt))
        world.hear("n0", MemberNews(order.group, order.index, order.attempt, 1, "exit code 1"))
        world.now -= 1.0  # a round is a second, and the rest is to be seen
        world.rounds(1)
    assert [o.rest_s for o in world.started()] == pytest.approx([0, 0, 0.1, 0.2, 0.4])
    explained = world.ask(Explain("job"))
    assert [reason.reason for reason in explained.because] == ["rests"]
    assert "it crashed 4 times in a row, and rests until" in explained.because[0].sentence
    assert "rests until" in world.ask(GetJob("job")).members[0].reason
    world.rejoin(world.nodes["n0"])
    assert [o.rest_s for o in world.started()[-2:]] == pytest.approx([0.4, 0.4]), "ordered again"
    world.ask(CommandJob("job", "cancel"))
    world.rounds(5)
    assert isinstance(world.orders[-1], EndMember), "what rests can be cancelled"


@pytest.fixture
def started():
    """Return a world with a job of one member, and the order that starts it."""
    world = one_node(2)
    process = Process(command=("true",), requests=(("CPU", 2.0),))
    spec = JobSpec(
        name="job", groups=(TaskGroup(name="a", template=Template(processes=(process,))),)
    )
    world.ask(ApplyManifests([job_manifest(spec)]))
    world.rounds(5)
    [order] = world.started()
    return world, order


def test_an_order_to_start_is_given_again_to_a_node_that_was_away(started):
    world, order = started
    world.rejoin(world.nodes["n0"])
    assert [o.attempt for o in world.started()] == [order.attempt] * 2
    world.hear("n0", MemberNews(order.group, order.index, order.attempt, 0, "", "a"))
    world.rejoin(world.nodes["n0"])
    assert len(world.started()) == 2, "it has ended"


def test_an_order_to_end_is_given_again_to_a_node_that_was_away(started):
    world, order = started
    world.hear("n0", MemberNews(order.group, order.index, order.attempt, log="a"))
    world.ask(CommandJob("job", "cancel"))
    world.rounds(1)
    world.rejoin(world.nodes["n0"])
    ends = [m for m in world.orders if isinstance(m, EndMember)]
    assert [(m.group, m.index, m.attempt) for m in ends] == [
        (order.group, order.index, order.attempt)
    ] * 2


@pytest.mark.parametrize("lack", ["directories", "shortage"])
@pytest.mark.parametrize("has_said_that_it_runs", [False, True])
@pytest.mark.parametrize("restart", ["Never", "OnFailure"])
def test_a_member_that_its_node_could_not_begin_waits_for_another_place(
    restart, has_said_that_it_runs, lack
):
    world = one_node(2)
    process = Process(command=("true",), requests=(("CPU", 2.0),))
    template = Template(processes=(process,), restart=restart)
    spec = JobSpec(name="job", groups=(TaskGroup(name="a", template=template),))
    world.ask(ApplyManifests([job_manifest(spec)]))
    world.rounds(5)
    [order] = world.started()
    about = (order.group, order.index, order.attempt)
    full = "its node is not well: its directory is full"
    if has_said_that_it_runs:
        world.hear("n0", MemberNews(*about))
    news = MemberNews(*about, 126, full, is_nodes_fault=True)
    world.nodes["n0"].about[lack] = "its directory is full"
    world.report(world.nodes["n0"])
    for _ in range(2):  # it may come twice
        world.hear("n0", news)
    world.rounds(5)
    job = world.ask(GetJob("job"))
    assert (job.state, job.retries) == ("Pending", 0)
    assert [member.reason for member in job.members] == [full]
    assert len(world.started()) == 1, "the node is full"
    (node,) = world.ask(ListNodes())
    assert (node.state, node.reason) == ("DRAINING", "its directory is full")
    assert world.ask(GetHealth()).held == [
        f"{node.node_id} on {node.hostname} takes no new work: its directory is full"
    ]
    world.nodes["n0"].about.clear()
    world.rounds(5)
    assert [o.attempt > order.attempt for o in world.started()] == [False, True]
    assert world.ask(ListNodes())[0].state == "ALIVE"
    assert world.ask(GetHealth()).held == []
