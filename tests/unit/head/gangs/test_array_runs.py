"""Arrays whose places get one short task after another: the head and two nodes together."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from tests.effort import examples
from tests.unit.head.gangs.runs_world import Runs

from phalanx.errors import JobCommandError
from phalanx.head.jobs.array_tasks import GRANTED
from phalanx.manifests.dependencies import read_dependencies
from phalanx.model.ids import GangId, GroupId, JobId
from phalanx.model.jobs import states as st
from phalanx.model.jobs.spec import Policy
from phalanx.node.member_runs import MemberRuns
from phalanx.protocol.bundle_messages import Command, ExtendRun, RunTask, StartMember
from phalanx.protocol.requests.gangs import Explain
from phalanx.protocol.requests.jobs import GetJob

AGAIN = (Policy(action=st.RESTART_JOB, events=(st.POD_FAILED, st.POD_EVICTED)),)


@pytest.fixture
def world() -> Runs:
    return Runs()


def begun(world: Runs, indices: str = "0-199", **more: Any) -> Runs:
    """Return the world when the array has a run in each of its two places."""
    world.submit(indices, **more)
    for _ in range(20):
        world.talk(0.01)
        world.end(count=10)
        world.talk(0.01)
        if len(world.running) == len(world.control.gang_scheduler.jobs.runs.groups):
            return world
    raise AssertionError(f"there are no runs: {world.states()}")


def granted(world: Runs, name: str = "a") -> list[int]:
    tasks = world.tasks(name)
    return [i for n, i in enumerate(tasks.indices) if tasks.state(n) == GRANTED]


def test_a_place_goes_from_task_to_task_without_the_head(world: Runs) -> None:
    begun(world)
    assert len(granted(world)) > 20
    before = sum(map(len, world.starts.values()))
    for _ in range(10):
        world.end(count=1)
    assert sum(map(len, world.starts.values())) == before + 10


def test_each_task_runs_once_and_has_its_own_facts(world: Runs) -> None:
    begun(world, "0-199").finish()
    assert world.info().state == st.COMPLETED
    assert world.info().reason == "all 200 array tasks completed"
    assert {job: len(begins) for job, begins in world.starts.items()} == {
        f"default/a[{i}]": 1 for i in range(200)
    }
    ended = world.tasks().ended(150)
    assert (ended.state, ended.exit_code, ended.starts) == (st.COMPLETED, 0, 1)
    ((_, path),) = ended.logs["w-0"]
    assert path == "/logs/e150-w-0.1.log"
    scheduler = world.control.gang_scheduler
    world.talk(1.0)
    assert not scheduler.registry.gangs
    assert not world.rows.tables["runs"]
    assert all(
        node.resources.available() == node.resources.total() for node in world.nodes.values()
    )


def test_the_numbers_of_an_array_are_right_at_every_moment(world: Runs) -> None:
    begun(world, "0-99")
    while world.info().finished is None:
        row = world.info()
        assert row.pending + row.running + row.succeeded + row.failed == 100
        assert row.running <= 2
        world.end(count=1)
        world.talk(0.03)


def test_no_more_run_at_once_than_the_array_says(world: Runs) -> None:
    begun(world, "0-49%1", cpus=1.0)
    while world.info().finished is None:
        assert len(world.running) <= 1
        world.end(count=1)
        world.talk(0.03)
    assert world.info().succeeded == 50


def test_a_task_that_takes_long_gets_its_job_and_returns_those_behind_it(world: Runs) -> None:
    begun(world)
    (one, other) = (order.job for order in world.running.values())
    assert world.control.gang_scheduler.jobs.table.get(one) is None
    world.talk(0.7, 10)
    job = world.control.gang_scheduler.jobs.table.get(one)
    assert job is not None and job.state == st.RUNNING
    assert world.do(GetJob(one)).members[0].attempt == 1
    world.talk(0.6, 10)
    assert not granted(world)
    world.end(job=one)
    world.talk(0.1)
    assert world.do(GetJob(one)).state == st.COMPLETED
    assert world.control.gang_scheduler.jobs.table.get(other) is not None


def test_a_task_that_fails_fails_alone(world: Runs) -> None:
    begun(world)
    (failed,) = world.end(code=3)
    world.talk(0.1).finish()
    row = world.do(GetJob(failed))
    assert (row.state, row.members[0].exit_code) == (st.FAILED, 3)
    assert world.info().reason == "199 of 200 array tasks completed, 1 failed"
    assert len(world.starts[failed]) == 1


@pytest.mark.parametrize("how", ["in its place", "as a job"])
def test_a_task_of_a_run_is_retried(world: Runs, how: str) -> None:
    if how == "in its place":
        begun(world, restart="OnFailure")
    else:
        begun(world, policies=AGAIN, max_retry=2)
    (failed,) = world.end(code=3)
    world.talk(3.0, 30).finish()
    assert [attempt for _, attempt in world.starts[failed]] == [1, 2]
    assert world.info().reason == "all 200 array tasks completed"
    assert world.do(GetJob(failed)).members[0].attempt == 2


@pytest.mark.parametrize("order", ["late", "lost"])
def test_what_the_head_granted_before_it_heard_of_a_failure_does_not_begin(
    world: Runs, order: str
) -> None:
    begun(world, "0-99%1", restart="OnFailure")
    for _ in range(len(granted(world)) - 1):
        world.end()
    world.talk(0.11, 1)
    (failed,) = (order.job for order in world.running.values())
    assert len(granted(world)) > 1, "more tasks are on their way to the node"
    world.end(code=3)
    if order == "lost":
        world.box.clear()
    world.talk(0.03, 3)
    assert [order.job for order in world.running.values()] == [failed]
    assert not granted(world)
    if order == "lost":
        world.end()
        world.restart()
    world.talk(0.03, 3).finish()
    assert [attempt for _, attempt in world.starts.pop(failed)] == [1, 2]
    assert {len(begins) for begins in world.starts.values()} == {1}
    assert world.info().reason == "all 100 array tasks completed"


def test_a_task_that_was_to_begin_again_gets_another_place(world: Runs) -> None:
    begun(world)
    (one, _) = (order.job for order in world.running.values())
    world.talk(0.7, 10)
    world.command(one.removeprefix("default/"), "requeue")
    world.end(job=one)  # well, before the order arrives, and the next one begins
    world.talk(1.0, 20).finish()
    assert world.info().reason == "all 200 array tasks completed"
    assert len(world.starts[one]) == 2


def test_a_node_takes_orders_of_any_content() -> None:
    command = Command([], {}, "", 0)
    runs = MemberRuns()
    for index, commands in enumerate(([], [command], [command, command])):
        like = StartMember(
            GangId(GroupId(b"g")), index, 1, JobId("a[1]"), "", [], commands, {}, 0.0
        )
        key = runs.extend(ExtendRun(1, [RunTask(JobId("a[1]"), ["true"], {})], like))
        begun = runs.next(key)
        assert begun is not None and len(begun.commands) == min(len(commands), 1)


def test_cancelled_tasks_of_runs_end_and_the_others_go_on(world: Runs) -> None:
    begun(world)
    mine = granted(world)
    (first, _) = (order.job for order in world.running.values())
    wanted = [int(first.partition("[")[2][:-1]), *mine[4:8], 199]
    world.command(f"a[{','.join(map(str, sorted(wanted)))}]", "cancel")
    world.talk(0.1)
    world.end(code=143, job=first)
    world.talk(0.1).finish()
    states = {i: world.tasks().ended(i).state for i in range(200)}
    assert {i for i, state in states.items() if state == st.TERMINATED} == set(wanted)
    assert set(states.values()) == {st.TERMINATED, st.COMPLETED}
    with pytest.raises(JobCommandError, match="none of these"):
        world.command("a[3-5]", "cancel")


@pytest.mark.parametrize("command", ["cancel", "suspend"])
def test_an_array_that_is_to_end_ends_with_its_runs(world: Runs, command: str) -> None:
    begun(world)
    world.command("a", command)
    world.talk(0.1)
    world.end(code=143, count=2)
    world.talk(0.2, 20)
    assert not world.running
    assert world.info().state == (st.TERMINATED if command == "cancel" else st.ABORTED)
    assert all(
        node.resources.available() == node.resources.total() for node in world.nodes.values()
    )
    if command == "suspend":
        world.command("a", "resume")
        world.talk(0.2, 20).finish()
        assert world.info().succeeded == 200


def test_a_held_array_begins_nothing_more(world: Runs) -> None:
    begun(world)
    world.command("a", "hold")
    world.talk(0.1)
    assert not granted(world)
    world.end(count=2)
    world.talk(0.2, 10)
    assert not world.running
    assert world.info().is_held
    world.command("a", "release")
    world.talk(0.2, 10).finish()
    assert world.info().succeeded == 200


def test_others_get_the_place_when_the_run_is_over(world: Runs) -> None:
    begun(world)
    world.submit("0", name="b").talk(0.05)
    for _ in range(400):
        if world.starts["default/b[0]"]:
            break
        world.end(count=2)
        world.talk(0.02)
    assert world.starts["default/b[0]"]
    assert world.info("a").pending


def test_a_preempted_run_returns_what_has_not_begun(world: Runs) -> None:
    begun(world)
    (first, second) = (order.job for order in world.running.values())
    world.submit("0-1", name="b", priority=9).talk(0.3, 10)
    assert not granted(world)
    world.end(code=143, count=2)
    world.talk(0.3, 20)
    assert world.starts["default/b[0]"] and world.starts["default/b[1]"]
    world.finish("b")
    world.finish("a")
    assert [attempt for _, attempt in world.starts[first]] == [1, 2]
    assert [attempt for _, attempt in world.starts[second]] == [1, 2]


def test_tasks_of_other_arrays_follow_one_by_one(world: Runs) -> None:
    begun(world)
    world.submit("0-199", name="b", after=read_dependencies("aftercorr:a", "default"))
    while world.info("b").finished is None:
        for begins in world.starts:
            if begins.startswith("default/b[") and world.starts[begins]:
                assert world.good[begins.replace("b[", "a[")]
        world.end(count=4)
        world.talk(0.05)
    assert world.info("b").state == st.COMPLETED


def test_a_node_that_dies_takes_no_task_with_it(world: Runs) -> None:
    begun(world, "0-99")
    dead = next(prefix for prefix, _ in world.running)
    world.node_dies(dead)
    world.talk(0.2, 10).finish()
    assert world.info().state == st.COMPLETED
    for job, nodes in world.good.items():
        assert len(nodes) == 1 or nodes.count(dead) >= len(nodes) - 1, job


def test_an_ended_task_is_not_explained_by_the_place_that_it_had(world: Runs) -> None:
    world.submit("0-199").talk(0.2, 20)
    ended = world.end(count=10)
    world.talk(0.05)
    assert world.do(Explain(ended[0])).state == "is Completed"


def test_a_head_that_comes_back_goes_on_with_runs(world: Runs) -> None:
    begun(world)
    for _ in range(6):
        world.end(count=3)
        world.restart()
        world.talk(0.1)
    world.finish()
    assert {len(begins) for begins in world.starts.values()} == {1}
    assert world.info().reason == "all 200 array tasks completed"


ACTIONS = some.sampled_from(
    ["end", "end", "end many", "fail", "moment", "moment", "long", "restart", "cancel", "other",
     "priority"]
)  # fmt: skip


@settings(max_examples=examples(30), deadline=None)
@given(
    some.lists(ACTIONS, max_size=14), some.booleans(), some.sampled_from(["", "%1", "%3"]),
    some.booleans(),
)  # fmt: skip
def test_no_task_is_lost_or_runs_twice(
    actions: list[str], is_retried: bool, limit: str, dies: bool
) -> None:
    world = begun(Runs(), f"0-39{limit}", policies=AGAIN if is_retried else (), max_retry=3)
    names = itertools.count()
    asked = ["a"]
    failed: set[str] = set()
    for action in actions:
        if action == "end":
            world.end()
        elif action == "end many":
            world.end(count=7)
        elif action == "fail":
            failed.update(world.end(code=1))
        elif action == "long":
            world.talk(1.5, 20)
        elif action == "restart":
            world.restart()
        elif action == "cancel" and world.info().finished is None:
            first = next(names) * 7 % 40
            if any(world.tasks().state(i) in (st.WAITING, GRANTED) for i in (first,)):
                world.command(f"a[{first}]", "cancel")
        elif action in ("other", "priority"):
            asked.append(f"b{next(names)}")
            world.submit("0-1", name=asked[-1], priority=9 if action == "priority" else 0)
        elif action == "moment":
            world.talk(0.05)
    if dies and world.running:
        world.node_dies(next(prefix for prefix, _ in world.running))
    for name in asked:
        world.finish(name)
    world.talk(2.0, 20)
    jobs = world.control.gang_scheduler.jobs
    assert not world.internal_errors
    tasks = world.tasks()
    for position in range(40):
        job, ended = f"default/a[{position}]", tasks.ended(position)
        nodes = [node for node in world.good[job] if node in world.nodes]
        assert len(nodes) <= 1, job
        assert ended.state in (st.COMPLETED, st.TERMINATED, st.FAILED), job
        assert (ended.state == st.COMPLETED) <= bool(world.good[job]), job
        assert (ended.state == st.FAILED) <= (job in failed), job
        if not dies:
            attempts = [attempt for _, attempt in world.starts[job]]
            assert attempts == list(range(1, len(attempts) + 1)), job
    assert sum(world.job().tally[""].values()) == 40
    assert not world.control.gang_scheduler.registry.gangs
    assert not jobs.runs.groups
    for node in world.nodes.values():
        assert node.resources.available() == node.resources.total()
