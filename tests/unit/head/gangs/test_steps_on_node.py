"""Steps on a node: programs that run beside those of a member. They end with the member and do not
affect it.
"""

from __future__ import annotations

import pytest
from tests.unit.head.gangs.test_members_on_node import GROUP, Node

from phalanx.node.job_members import MAX_STEPS
from phalanx.node.member_effects import CommandEnd
from phalanx.protocol.bundle_messages import (
    Command,
    MemberNews,
    SignalMember,
    StartStep,
    StepEnded,
    StepStarted,
)


class NodeWithSteps(Node):
    """A node that keeps its answers about steps separate from its news of members."""

    def step(self, attempt=1, token=1, number=-1, task=0):
        order = StartStep(token, GROUP, 0, attempt, Command(["true"], {}), number, task)
        self.members.start_step(order)
        *_, answer = [one for one in self.news if isinstance(one, StepStarted)]
        self.news[:] = [one for one in self.news if isinstance(one, MemberNews | StepEnded)]
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


def test_a_step_that_was_asked_to_end_has_the_grace_of_its_member(node):
    """This also holds if the member's own command ends immediately."""
    node.start(grace_s=5.0)
    node.step()
    node.end()
    node.exits(143, process=0)
    node.later(4.9)
    assert node.signals == [("TERM", 0), ("TERM", 1)]
    assert node.told() == [(1, None)]
    node.later(0.1)
    assert node.signals[2:] == [("KILL", 1)]
    node.exits(137, process=1)
    assert node.told() == [(1, None), (1, 143)]


def test_a_step_has_the_grace_of_a_place_that_is_taken_away(node):
    node.start()
    node.step()
    node.evict()
    node.exits(143, process=0)
    assert node.signals == [("TERM", 0), ("TERM", 1)]
    node.members.end_in(list(node.bundles.pools((GROUP, 0))), "it did not end in time")
    assert node.signals[2:] == [("KILL", 1)]
    node.exits(137, process=1)
    assert len(node.members) == 0


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
    assert f"it already has {MAX_STEPS} steps" in node.step()
    node.exits(0)
    assert node.step() == ""


def ends(node):
    return [(m.step, m.task, m.code, m.is_cut) for m in node.news if isinstance(m, StepEnded)]


def test_how_a_task_of_a_step_has_ended_is_told_before_its_member_s_end(node):
    node.start()
    node.step()
    node.step(number=4, task=0)
    node.step(number=4, task=1)
    node.exits(7, process=1)
    assert ends(node) == [], "nobody keeps account of it"
    node.later(2.5)
    node.members.exited(node.processes[2], CommandEnd(code=7, cpu_s=1.5, memory=1000))
    assert ends(node) == [(4, 0, 7, False)]
    (told,) = [m for m in node.news if isinstance(m, StepEnded)]
    assert (told.used.ran_s, told.used.cpu_s, told.used.memory_max) == (2.5, 1.5, 1000.0)
    node.exits(0, process=0)
    node.exits(137, process=3)
    assert ends(node)[1:] == [(4, 1, 137, True)]
    assert isinstance(node.news[-1], MemberNews) and node.news[-1].code == 0


def test_a_step_that_ended_well_was_not_cut_although_its_member_ends(node):
    """srun gives up the member's place as soon as its program has ended, before the node knows of
    the end.
    """
    node.start()
    node.step(number=4, task=0)
    node.exits(0, process=0)
    node.exits(0, process=1)
    assert ends(node) == [(4, 0, 0, False)]


def test_a_signal_goes_to_steps_or_to_what_the_commands_have_started_and_ends_nothing(node):
    def signalled(to="started", attempt=1, index=0):
        node.signals.clear()
        node.members.signal(SignalMember(GROUP, index, attempt, 10, to))
        return node.signals

    assert signalled() == []
    node.start()
    assert signalled() == signalled() == [(10, "started", 0)], "as often as it is sent"
    assert signalled("command") == [(10, "command", 0)]
    assert signalled("all") == [(10, "all", 0)]
    assert signalled(attempt=2) == signalled(index=1) == []
    node.step()
    assert signalled() == [(10, "all", 1)]
    assert signalled("command") == [(10, "command", 0)]
    assert signalled("all") == [(10, "all", one) for one in (1, 0)]
    assert node.told() == [(1, None)]
