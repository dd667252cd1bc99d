"""Members that are lost or end while more of their gang is to come, at the control store itself."""

from __future__ import annotations

import msgspec
import pytest

from phalanx.engines.embedded.head.batch.gangs import WORDS
from phalanx.engines.embedded.head.shell import ControlShell
from phalanx.model.jobs.spec import JobSpec, Policy, Process, TaskGroup, Template
from phalanx.protocol.cluster_messages import (
    Ask,
    BundlesGone,
    CommitBundles,
    Committed,
    GiveBackBundles,
    MemberNews,
    NodeReport,
    PrepareBundles,
    Prepared,
    ViewRow,
)

GROUP = bytes(18)


class World:
    """A head with nodes of a CPU each, which answer when the test says so."""

    def __init__(self):
        self.now = 100.0
        self.told = []
        self.shell = ControlShell(
            lambda prefix, message: self.told.append((prefix, message)),
            is_alone=True,
            clock=lambda: self.now,
            wall=lambda: self.now,
        )

    def add(self, name, cpus=1.0):
        total = {"CPU": cpus}
        prefix = name.encode().ljust(6)
        row = ViewRow(name, prefix, "", 0, "ALIVE", total, dict(total), labels={})
        self.shell.join_alone(row)
        self.hear(name, NodeReport(available=total))

    def kill(self, name):
        self.shell.nodes.leave(name, "its process ended")
        self.told = [(prefix, m) for prefix, m in self.told if prefix != name.encode().ljust(6)]

    def gang(self, members, least):
        fields = {
            "group": GROUP, "name": "g", "queue": "default", "least": least,
            "needs": [{"CPU": 1.0}] * members,
        }  # fmt: skip
        self.shell.batch.answer(Ask(0, bytes(16), "batch.create_gang", fields), print)

    def cycles(self, count=1):
        for _ in range(count):
            self.now += 5.0
            self.shell.on_round(self.now)

    def answer(self):
        """The nodes do what they were told; what they were told, by kind."""
        done = []
        while self.told:
            prefix, message = self.told.pop(0)
            place = (getattr(message, "group", b""), getattr(message, "attempt", 0))
            match message:
                case PrepareBundles():
                    answer = Prepared(*place, True)
                case CommitBundles():
                    answer = Committed(*place, True)
                case GiveBackBundles():
                    answer = BundlesGone(*place)
                case _:
                    continue
            done.append(type(message))
            self.shell.on_message(prefix, answer)
        return done

    def hear(self, node, message):
        self.shell.on_message(node.encode().ljust(6), message)

    def states(self):
        return [WORDS[state] for state in self.shell.batch.ledger.gangs[GROUP].states]


@pytest.fixture
def world():
    """Two members of a gang run, and the third's node is asked."""
    world = World()
    world.add("n1")
    world.add("n2")
    world.gang(members=3, least=2)
    world.cycles()
    world.answer()
    world.add("n3")
    world.cycles()
    assert world.states() == ["running", "running", "starting"]
    return world


def test_a_member_does_not_begin_when_those_it_was_to_join_are_lost(world):
    world.kill("n1")
    world.kill("n2")
    assert CommitBundles not in world.answer()
    world.cycles(3)
    assert world.states() == ["pending"] * 3
    world.add("n4")
    world.cycles(3)
    assert CommitBundles in world.answer()
    assert world.states() == ["running", "running", "pending"]


def test_a_member_that_was_to_leave_its_lost_node_waits_again():
    world = World()
    world.add("n1")
    world.gang(members=2, least=1)
    world.cycles()
    world.answer()
    more = NodeReport(available={"CPU": 1.0}, total={"CPU": 2.0})
    world.hear("n1", more)
    world.cycles()
    batch = world.shell.batch
    batch.placing._evict(batch.ledger.gangs[GROUP], [0])
    assert world.states() == ["leaving", "starting"]
    world.kill("n1")
    world.add("n2", cpus=2.0)
    world.cycles(3)
    world.answer()
    assert world.states() == ["running", "running"]


def test_a_spare_member_does_not_join_those_that_end_to_start_again():
    world = World()
    world.add("n1", cpus=3.0)
    template = Template(
        processes=(Process(command=("true",), requests=(("CPU", 1.0),)),), restart="Never"
    )
    groups = (
        TaskGroup(name="a", replicas=2, min_available=1, template=template),
        TaskGroup(name="b", replicas=2, min_available=2, template=template),
    )
    policy = Policy(action="RestartTask", events=("PodFailed",))
    spec = JobSpec(name="job", groups=groups, min_available=3, policies=(policy,))
    objects = [("Job", msgspec.msgpack.encode(spec))]
    world.shell.batch.answer(Ask(0, bytes(16), "batch.apply", {"objects": objects}), print)
    world.cycles()
    world.answer()
    gang = world.shell.batch.jobs.gang_of("default/job")
    assert [WORDS[s] for s in gang.states] == ["running", "pending", "running", "running"]
    for index in (0, 2, 3):
        world.hear("n1", MemberNews(gang.group, index, 1, log="x"))
    world.hear("n1", MemberNews(gang.group, 2, 1, 1, "exit code 1", "x"))
    world.add("n2")
    world.cycles()
    assert [WORDS[s] for s in gang.states] == ["running", "pending", "ending", "running"]
    world.answer()
    world.hear("n1", MemberNews(gang.group, 3, 1, 1, "ended", "x"))
    world.answer()
    world.cycles(3)
    world.answer()
    assert [WORDS[s] for s in gang.states] == ["running"] * 4
