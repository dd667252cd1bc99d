"""The agent of a Ray node, without Ray: its machines, and the server of its commands."""

from __future__ import annotations

import select
import time
from typing import Any

import pytest
from tests.present import present

from phalanx.adapters.ray.scheduler.command_server import start_command_server
from phalanx.adapters.ray.scheduler.node_machines import NodeMachines
from phalanx.model.ids import GangId, GroupId, JobId
from phalanx.model.principals import NOBODY
from phalanx.protocol.bundle_messages import (
    BundlesGone,
    Command,
    CommitBundles,
    Committed,
    GiveBackBundles,
    MemberNews,
    PrepareBundles,
    Prepared,
    StartMember,
)
from phalanx.protocol.frames import decode_body
from phalanx.protocol.membership_messages import Reported
from phalanx.protocol.report_messages import NodeReport
from phalanx.runtime.os import session as sessions
from phalanx.runtime.os.fork_client import ForkClient
from phalanx.runtime.os.polling import wait_for
from phalanx.scheduler.devices.instances import NodeResources

NODE = "ab" * 28
GROUP = GangId(GroupId(b"g" * 18))
REPORT_EVERY_S = 1e6


class Agent:
    """The machines of one node, and what they have sent to the scheduler."""

    peer, tag, principal = b"", None, NOBODY

    def __init__(self, session):
        self.server = start_command_server(session)
        self.forks = ForkClient(self.server.socket)
        resources = NodeResources({"CPU": 2.0, "GPU": 4.0})
        self.machines = NodeMachines(
            NODE, resources, {}, self.forks, session.directory, REPORT_EVERY_S
        )
        self.machines.joined(self)
        self._sent: list[Any] = []

    def post(self, message):
        self._sent += decode_body(message.body) if isinstance(message, Reported) else [message]

    send = post

    def hear(self, *messages):
        """Let these messages of the scheduler arrive; return what the node sends afterwards."""
        for message in messages:
            self.machines.from_scheduler.handle(message)
        self.machines.on_round()
        self.forks.connection.flush()
        return self.sent()

    def sent(self):
        """Return the messages that were sent since the last call."""
        sent = self._sent
        self._sent = []
        return sent

    def wait(self):
        """Wait for news of commands until the node sends something; return it."""
        while not self._sent:
            assert wait_for(self.forks.connection.fileno, select.POLLIN, 60.0)
            for message in present(self.forks.connection.receive()):
                self.machines.from_fork_server(message)
        return self.sent()


@pytest.fixture
def agent():
    session = sessions.create()
    agent = Agent(session)
    yield agent
    agent.forks.connection.close()
    assert agent.server.process.wait(60.0) == 0
    sessions.remove(session)


def test_a_command_runs_in_its_bundle_and_its_end_is_reported(agent):
    agent.machines.on_tick(time.monotonic())
    assert [type(one) for one in agent.sent()] == [NodeReport]
    bundle = {"CPU": 1.0, "GPU": 2.0}
    (prepared,) = agent.hear(PrepareBundles(GROUP, 1, {0: bundle}))
    assert prepared == Prepared(GROUP, 1, True, {0: {"GPU": [0, 1]}})
    assert agent.hear(CommitBundles(GROUP, 1)) == [Committed(GROUP, 1, True)]
    command = Command(argv=["sh", "-c", "echo $WHO; exit 3"], variables={"WHO": "me"})
    member = StartMember(GROUP, 0, 1, JobId("a-job"), "worker-0", [], [command], {}, 1.0)
    (running,) = agent.hear(member)
    assert (running.code, running.index) == (None, 0)
    (ended,) = agent.wait()
    assert isinstance(ended, MemberNews)
    assert ended.code == 3
    with open(ended.log) as log:
        assert log.read() == "me\n"
    report, gone = agent.hear(GiveBackBundles(GROUP, 1, [0]))
    assert report.available == {"CPU": 2.0, "GPU": 4.0}, "it comes first: else it counts as taken"
    assert gone == BundlesGone(GROUP, 1)


def test_what_is_given_back_at_once_is_told_in_one_report(agent):
    others = [b"%018d" % number for number in range(2)]
    agent.hear(*(PrepareBundles(GroupId(group), 1, {0: {"CPU": 1.0}}) for group in others))
    agent.hear(*(CommitBundles(GroupId(group), 1) for group in others))
    report, *gone = agent.hear(*(GiveBackBundles(GroupId(group), 1, [0]) for group in others))
    assert report.available == {"CPU": 2.0, "GPU": 4.0}
    assert gone == [BundlesGone(GroupId(group), 1) for group in others]


def test_what_was_given_back_is_told_before_who_has_it_next(agent):
    other, all_gpus = GroupId(b"o" * 18), {0: {"GPU": 4.0}}
    agent.hear(PrepareBundles(GROUP, 1, all_gpus))
    agent.hear(CommitBundles(GROUP, 1))
    sent = agent.hear(GiveBackBundles(GROUP, 1, [0]), PrepareBundles(other, 1, all_gpus))
    assert [type(one) for one in sent] == [NodeReport, BundlesGone, Prepared]


def test_a_node_joins_with_what_it_holds(agent):
    agent.hear(PrepareBundles(GROUP, 4, {2: {"GPU": 1.0}}))
    join = agent.machines.join("10.0.0.1", "host", 7)
    assert (join.row.node_id, join.row.host, join.hostname) == (NODE, "10.0.0.1", "host")
    assert join.row.available["GPU"] == 3.0
    assert (join.epoch, join.bundles.held) == (7, [(GROUP, 2, 4, False)])
