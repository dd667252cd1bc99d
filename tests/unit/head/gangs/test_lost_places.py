"""Members that are lost or end while other members of their gang are still being placed, as the
head handles them.
"""

from __future__ import annotations

import pytest
from tests.present import present
from tests.world.cluster import World

from phalanx.model.jobs.spec import Policy, Process, TaskGroup, Template
from phalanx.model.lifecycle import REMOVED
from phalanx.protocol.bundle_messages import CommitBundles, MemberNews, StartMember
from phalanx.protocol.report_messages import NodeReport


@pytest.fixture
def world():
    """Return a world in which two members of a gang run, and the third's node has been asked to
    prepare.
    """
    world = World()
    world.add("n1")
    world.add("n2")
    world.gang(members=3, least=2)
    world.cycles()
    world.run()
    world.add("n3")
    world.cycles()
    assert world.states() == ["running", "running", "starting"]
    return world


def test_a_member_does_not_begin_when_those_it_was_to_join_are_lost(world):
    world.kill("n1")
    world.kill("n2")
    assert CommitBundles not in world.run()
    world.cycles(3)
    assert world.states() == ["pending"] * 3
    world.add("n4")
    world.cycles(3)
    assert CommitBundles in world.run()
    assert world.states() == ["running", "running", "pending"]


def test_a_job_does_not_begin_in_part_when_a_node_dies_that_was_asked_to_keep_its_place():
    """All nodes have prepared the gang's bundles, and one dies before it commits."""
    world = World()
    world.add("n1")
    world.add("n2")
    process = Process(command=("true",), requests=(("CPU", 1.0),))
    template = Template(processes=(process,), restart="Never")
    world.job(TaskGroup(name="a", replicas=2, template=template), min_available=2)
    world.cycles()
    for _ in range(4):
        world.deliver(world.on_the_way.pop(0))  # orders to prepare, and the answers
    to_n1, to_n2 = world.on_the_way
    assert {type(letter.message) for letter in (to_n1, to_n2)} == {CommitBundles}
    world.on_the_way = [to_n1]
    world.run()
    world.kill("n2")
    world.run()
    assert not [m for _, m in world.told if isinstance(m, StartMember)]
    assert world.states(world.gang_of()) == ["pending", "pending"]
    world.add("n3")
    world.cycles(3)
    world.run()
    assert world.states(world.gang_of()) == ["running", "running"]
    assert len([m for _, m in world.told if isinstance(m, StartMember)]) == 2


def test_a_member_that_was_to_leave_its_lost_node_waits_again():
    world = World()
    world.add("n1")
    world.gang(members=2, least=1)
    world.cycles()
    world.run()
    more = NodeReport(available={"CPU": 1.0}, total={"CPU": 2.0})
    world.hear("n1", more)
    world.cycles()
    world.evict([0])
    assert world.states() == ["leaving", "starting"]
    world.kill("n1")
    world.add("n2", CPU=2.0)
    world.cycles(3)
    world.run()
    assert world.states() == ["running", "running"]


def test_a_spare_member_does_not_join_those_that_end_to_start_again():
    world = World()
    world.add("n1", CPU=3.0)
    template = Template(
        processes=(Process(command=("true",), requests=(("CPU", 1.0),)),), restart="Never"
    )
    groups = (
        TaskGroup(name="a", replicas=2, min_available=1, template=template),
        TaskGroup(name="b", replicas=2, min_available=2, template=template),
    )
    policy = Policy(action="RestartTask", events=("PodFailed",))
    world.job(*groups, min_available=3, policies=(policy,))
    world.cycles()
    world.run()
    gang = world.gang_of()
    assert world.states(gang) == ["running", "pending", "running", "running"]
    for index in (0, 2, 3):
        world.hear("n1", MemberNews(gang.gang_id, index, 1, log="x"))
    world.hear("n1", MemberNews(gang.gang_id, 2, 1, 1, "exit code 1", "x"))
    world.add("n2")
    world.cycles()
    assert world.states(gang) == ["running", "pending", "ending", "running"]
    world.run()
    world.hear("n1", MemberNews(gang.gang_id, 3, 1, 1, "ended", "x"))
    world.run()
    world.cycles(3)
    world.run()
    assert world.states(gang) == ["running"] * 4


def test_a_member_does_not_begin_when_its_job_needs_more_by_then():
    """Members that had ended counted for the job's minimum. Then the job starts them again, and
    they no longer count.
    """
    world = World()
    world.add("n1", CPU=3.0)
    process = Process(command=("true",), requests=(("CPU", 1.0),))
    template = Template(processes=(process,), restart="Never")
    groups = [TaskGroup(name=n, replicas=r, template=template) for n, r in (("a", 2), ("b", 1))]
    policy = Policy(action="RestartTask", events=("PodFailed",))
    world.job(*groups, min_available=3, policies=(policy,))
    world.cycles()
    world.run()
    gang = world.gang_of()
    for index in (0, 1, 2):
        world.hear("n1", MemberNews(gang.gang_id, index, 1, log="x"))
    world.hear("n1", MemberNews(gang.gang_id, 0, 1, 0, "", "x"))
    world.hear("n1", MemberNews(gang.gang_id, 2, 1, 1, "exit code 1", "x"))
    world.run()
    world.cycles()
    assert world.states(gang) == ["ended", "running", "starting"]
    world.hear("n1", MemberNews(gang.gang_id, 1, 1, 1, "exit code 1", "x"))
    assert CommitBundles not in world.run(), "it has crashed twice: all of it rests"
    world.cycles(3)
    assert CommitBundles not in world.run()
    world.head.on_tick(world.now)
    world.cycles(3)
    assert CommitBundles in world.run()
    assert world.states(world.gang_of()) == ["running"] * 3


def test_a_gang_is_over_when_the_last_member_gives_back_after_the_others_were_lost():
    world = World()
    world.add("n1")
    world.add("n2")
    process = Process(command=("true",), requests=(("CPU", 1.0),))
    world.job(
        TaskGroup(name="a", replicas=2, template=Template(processes=(process,))), min_success=1
    )
    world.cycles()
    world.run()
    gang = world.gang_of()
    first, second = [member.node for member in gang.members]
    for index, node in enumerate((first, second)):
        world.hear(node, MemberNews(gang.gang_id, index, 1, log="x"))
    world.hear(first, MemberNews(gang.gang_id, 0, 1, 0, "", "x"))
    world.kill(second)
    world.run()
    assert world.gang_of() is None
    assert present(world.head.group_table.get(gang.gang_id)).state == REMOVED
