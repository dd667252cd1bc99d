"""Steps on a node: programs beside those of a member, which end with it and change nothing else."""

from __future__ import annotations

import pytest
from tests.gangs.test_members_on_node import GROUP, Node

from phalanx.node.job_members import MAX_STEPS
from phalanx.protocol.bundle_messages import Command, MemberNews, StartStep, StepStarted


class NodeWithSteps(Node):
    """A node whose answers about steps are apart from its news of members."""

    def step(self, attempt=1, token=1):
        order = StartStep(token, GROUP, 0, attempt, Command(["true"], {}))
        self.members.start_step(order)
        (answer,) = [one for one in self.news if isinstance(one, StepStarted)]
        self.news[:] = [one for one in self.news if isinstance(one, MemberNews)]
        assert answer.token == token
        return answer.refusal


@pytest.fixture
def node(tmp_path):
    return NodeWithSteps(tmp_path)


def test_how_a_step_ends_changes_nothing_for_its_member(node):
    node.start()
    assert node.step() == ""
    node.exits(9, process=1)
    assert node.told() == [(1, None)]
    node.exits(0, process=0)
    assert node.told() == [(1, None), (1, 0)]


def test_a_member_is_over_once_its_steps_have_ended_with_it(node):
    node.start()
    node.step()
    node.step()
    node.exits(0, process=0)
    assert node.signals == [("KILL", 1), ("KILL", 2)]
    node.exits(137, process=1)
    assert node.told() == [(1, None)]
    assert len(node.members) == 1
    node.exits(137, process=2)
    assert node.told() == [(1, None), (1, 0)]
    assert len(node.members) == 0


def test_steps_are_asked_to_end_with_their_member(node):
    node.start(grace_s=5.0)
    node.step()
    node.end()
    assert node.signals == [("TERM", 0), ("TERM", 1)]
    node.later(5.0)
    assert node.signals[2:] == [("KILL", 0), ("KILL", 1)]


def test_who_does_not_run_takes_no_step(node):
    assert "does not run any more" in node.step()
    node.start()
    assert "does not run any more" in node.step(attempt=2)
    node.end()
    assert "does not run any more" in node.step()


def test_a_member_has_so_many_steps_at_a_time(node):
    node.start()
    for _ in range(MAX_STEPS):
        assert node.step() == ""
    assert f"it has {MAX_STEPS} steps already" in node.step()
    node.exits(0)
    assert node.step() == ""
