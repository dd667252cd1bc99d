"""Members of jobs on a node: orders that come twice, or in another order than they were given."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from phalanx.engines.embedded.worker.commands import NOT_STARTED
from phalanx.node.bundle_table import BundleTable
from phalanx.node.job_members import NodeMembers
from phalanx.protocol.cluster_messages import Command, EndMember, MemberNews, StartMember
from phalanx.protocol.zygote_messages import Exited, RunCommand
from phalanx.resources.instances import NodeResources
from phalanx.resources.sets import ResourceSet

GROUP = bytes(18)


class Node:
    """The parts of a node's shell that members meet; commands run until they are told to end."""

    def __init__(self, tmp_path):
        self.news = []
        self.processes = []
        self.session = SimpleNamespace(directory=str(tmp_path))
        self.control = SimpleNamespace(tell=self.news.append)
        self.groups = SimpleNamespace(settle=lambda: None)
        self.bundles = BundleTable(NodeResources({"CPU": 1}))
        self.bundles.prepare(GROUP, 1, {0: ResourceSet.from_mapping({"CPU": 1})}, 0.0)
        self.bundles.commit(GROUP, 1)
        self.members = NodeMembers(self)

    def clock(self):
        return 1.0

    def ask_zygote(self, order):
        if isinstance(order, RunCommand):
            self.processes.append(order.process)

    def start(self, attempt=1):
        command = Command(["true"], {}, "")
        self.members.on_control(
            StartMember(GROUP, 0, attempt, "default/job", "a-0", [], [command], {}, 0.0)
        )

    def end(self, attempt=1):
        self.members.on_control(EndMember(GROUP, 0, attempt))

    def exits(self, code=0):
        assert self.members.exited(Exited(self.processes[-1], 1, code))

    def told(self):
        """(attempt, exit code) of all news."""
        assert all(isinstance(news, MemberNews) for news in self.news)
        return [(news.attempt, news.code) for news in self.news]


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


def test_an_order_that_comes_twice_starts_one_attempt(node):
    node.start()
    node.start()
    assert (len(node.processes), node.told()) == (1, [(1, None), (1, None)])


def test_an_attempt_that_has_ended_does_not_begin_again(node):
    node.start()
    node.exits()
    node.start()
    node.end()
    assert (len(node.processes), node.told()) == (1, [(1, None), (1, 0)])
    node.start(2)
    assert len(node.processes) == 2


def test_an_attempt_that_was_ended_before_it_was_heard_of_never_begins(node):
    node.end()
    assert node.told() == [(1, NOT_STARTED)]
    node.start()
    node.end()
    assert (node.processes, node.told()) == ([], [(1, NOT_STARTED)])
