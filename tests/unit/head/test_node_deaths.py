"""Actors and members of jobs that seem to kill their nodes, because two nodes have died under them,
and nodes that died for other reasons.
"""

from __future__ import annotations

import pytest
from tests.present import present
from tests.unit.head.jobs.shell import Shell
from tests.unit.head.test_actor_places import Actors

from phalanx.head.jobs import events as ev
from phalanx.model.jobs import states as st
from phalanx.model.lifecycle import DEAD, RESTARTING
from phalanx.model.node_deaths import KILLED, LOST, ORDERLY, WITHIN_S


@pytest.mark.parametrize(
    ("restarts", "deaths", "state"),
    [
        (-1, [(KILLED, 0.0), (KILLED, 60.0)], DEAD),
        (5, [(LOST, 0.0), (KILLED, 60.0)], DEAD),
        (5, [(LOST, 0.0), (LOST, 60.0)], DEAD),
        (-1, [(LOST, 0.0), (LOST, 60.0)], RESTARTING),
        (5, [(ORDERLY, 0.0), (KILLED, 60.0)], RESTARTING),
        (-1, [(KILLED, 0.0), (KILLED, WITHIN_S)], RESTARTING),
    ],
)
def test_an_actor_under_which_nodes_died(restarts, deaths, state):
    world = Actors()
    for name in ("a", "b", "c"):
        world.add(name, CPU=2)
    world.table.register(world.record("x", max_restarts=restarts))
    actor = present(world.table.get(b"x"))
    for at, (death, wall) in enumerate(deaths):
        worker = b"w%d" % at
        assert world.placed(b"x", worker, actor.node)
        world.table.ready(b"x", worker, 7)
        node = actor.node
        world.kill(node)
        world.table.node_gone(node, "it is gone", death, wall)
    assert actor.state == state
    assert ("2 nodes died" in actor.reason) == (state == DEAD)


ONE = "tasks: [{name: a}], maxRetry: 5"


def _lose(shell, is_held_against=True):
    shell.tell(ev.MemberLost, "a-0", reason="its node n died", is_held_against=is_held_against)


@pytest.mark.parametrize("begun", ["run", ""])
def test_a_job_under_which_two_nodes_died_is_failed(begun):
    shell = Shell(ONE)
    shell.play(begun)
    _lose(shell)
    assert shell.job.state == st.PENDING
    shell.play(begun)
    _lose(shell)
    assert shell.job.state == st.FAILED
    assert "2 nodes died while a-0 ran there" in shell.job.reason
    assert "its node n died" in shell.job.reason


def _kill_parent(shell, is_parent_killed=True):
    about = {"exit_code": 137, "reason": "its parent", "is_parent_killed": is_parent_killed}
    shell.tell(ev.MemberExited, "a-0", **about)


RESTARTS = "tasks: [{name: a, maxRetry: 9, template: {spec: {restartPolicy: OnFailure}}}]"


@pytest.mark.parametrize("first", [_lose, _kill_parent])
def test_a_job_that_took_its_parent_along_is_stopped_the_second_time(first):
    shell = Shell(RESTARTS)
    shell.play("run")
    first(shell)
    assert shell.job.state in (st.RUNNING, st.PENDING)
    shell.play("run")
    _kill_parent(shell)
    assert shell.job.state == st.FAILED
    assert "a-0 has taken its node or its parent process along 2 times" in shell.job.reason
    assert "it poisons its nodes" in shell.job.reason


def test_ends_of_another_kind_are_not_counted_with_those_of_parents():
    shell = Shell(RESTARTS)
    shell.play("run")
    for is_parent_killed in (False, True, False, False):
        _kill_parent(shell, is_parent_killed)
        shell.play("run")
        assert shell.job.state == st.RUNNING


@pytest.mark.parametrize(
    ("at", "state"), [([0.0, 60.0], DEAD), ([0.0, WITHIN_S], RESTARTING), ([60.0], RESTARTING)]
)
def test_an_actor_that_took_its_parent_along(at, state):
    world = Actors()
    world.add("a", CPU=2)
    world.table.register(world.record("x", max_restarts=-1))
    actor = present(world.table.get(b"x"))
    for number, wall in enumerate(at):
        worker = b"w%d" % number
        assert world.placed(b"x", worker, actor.node)
        world.table.ready(b"x", worker, 7)
        world.table.worker_died(b"x", worker, "its parent", parent_killed=wall)
    assert actor.state == state
    assert ("it poisons its nodes" in actor.reason) == (state == DEAD)


def test_other_losses_and_those_long_ago_do_not_count():
    shell = Shell(ONE)
    for held, later_s in ((True, 0.0), (False, 1.0), (True, WITHIN_S), (False, 1.0)):
        shell.now += later_s
        shell.play("run")
        _lose(shell, held)
        assert shell.job.state == st.PENDING
    shell.play("run")
    _lose(shell)
    assert shell.job.state == st.FAILED


@pytest.mark.parametrize("step_s", [400 * WITHIN_S, -400 * WITHIN_S])
@pytest.mark.parametrize(("later_s", "state"), [(60.0, st.FAILED), (WITHIN_S, st.PENDING)])
def test_a_step_of_the_time_of_day_changes_nothing(step_s, later_s, state):
    shell = Shell(ONE)
    shell.play("run")
    _lose(shell)
    shell.play(f"jump {step_s}")
    shell.now += later_s
    shell.play("run")
    _lose(shell)
    assert shell.job.state == state


def test_members_count_apart():
    shell = Shell("tasks: [{name: a, replicas: 2}]")
    for name in ("a-0", "a-1"):
        shell.play("run")
        shell.tell(ev.MemberLost, name, reason="its node died", is_held_against=True)
    assert shell.job.state == st.PENDING
