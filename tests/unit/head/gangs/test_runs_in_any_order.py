"""Runs of array tasks whose messages arrive in any order: no attempt of a task begins twice."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Collection, Iterator
from typing import Any

import pytest
from tests.effort import examples
from tests.fuzz.world import NODES
from tests.unit.head.gangs.interleaved import Interleaved
from tests.unit.head.gangs.test_array_runs import AGAIN

from phalanx.errors import JobCommandError, JobNotFoundError
from phalanx.head.jobs import arrays
from phalanx.model.jobs import states as st
from phalanx.protocol.bundle_messages import ExtendRun, StartMember
from phalanx.protocol.requests.cluster import DrainNode, UndrainNode
from phalanx.protocol.requests.jobs import UpdateJob

COUNT = 30
RETRIES: dict[str, dict[str, Any]] = {
    "no retries": {},
    "retries of the job": {"policies": AGAIN, "max_retry": 50},
    "retries in the place": {"restart": "OnFailure"},
}


@pytest.fixture(autouse=True)
def few_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit the number of array tasks that have jobs, so that the tasks of small arrays have
    runs.
    """
    monkeypatch.setattr(arrays, "WINDOW", 4)


def finish(world: Interleaved, names: list[str]) -> None:
    """Let all commands succeed until these arrays are over."""
    for _ in range(3000):
        if all(world.job(name).is_finished for name in names):
            break
        for (prefix, process), _ in list(world.running.items()):
            asked = process in world.nodes[prefix].asked
            world.nodes[prefix].end(process, 143 if asked else 0)
        world.talk(0.05)
    else:
        raise AssertionError(f"{world.info('a')} does not end; {world.states()}")
    world.talk(2.0, 20).talk(6.0, 30)


def check(world: Interleaved, failed: set[str], came_back: Collection[str] = ()) -> None:
    """Check that each task ran as it must, and that nothing is left. `failed`: the tasks that have
    failed once. `came_back`: the tasks that a person made wait again as if they had never begun.
    """
    assert not world.internal_errors
    tasks = world.tasks()
    for position in range(COUNT):
        job, ended = f"default/a[{position}]", tasks.ended(position)
        starts = [(node, number) for node, number in world.starts[job] if node not in world.died]
        numbers = [number for _, number in starts]
        if job not in came_back:
            assert numbers == sorted(set(numbers)), (job, world.starts[job])
        good = [node for node in world.good[job] if node not in world.died]
        assert len(good) <= len(starts), job
        assert ended.state in (st.COMPLETED, st.TERMINATED, st.FAILED), job
        assert (ended.state == st.COMPLETED) <= bool(world.good[job]), job
        assert (ended.state == st.FAILED) <= (job in failed), job
    assert sum(world.job().tally[""].values()) == COUNT
    assert not world.control.gang_scheduler.registry.gangs
    assert not world.control.gang_scheduler.jobs.runs.groups
    assert not world.rows.tables["runs"]
    for node in world.nodes.values():
        assert node.resources.available() == node.resources.total()


# ---- all orders of the messages about one place ------------------------------------------------

PLACE = ("order", "order", "fail", "news", "news")
TROUBLES = ("", "the store writes", "the connection breaks", "the head restarts", "the node dies")


def orders_of_messages() -> Iterator[tuple[str, ...]]:
    """Yield all orders of the events about one place. Then yield each of these orders again with
    one disturbance, at each position.
    """
    plain = sorted({one for one in itertools.permutations(PLACE) if one[0] == "order"})
    for one in plain:
        yield one
        for trouble, at in itertools.product(TROUBLES[1:], range(1, len(one) + 1)):
            yield (*one[:at], trouble, *one[at:])


def new_place(**more: Any) -> tuple[Interleaved, bytes]:
    """Return a world and the prefix of a node. The node has two orders on their way for a new
    place: one gives it an array task, the next one a run of further tasks.
    """
    world = Interleaved()
    world.submit(f"0-{COUNT - 1}", **more).talk(0.05)
    world.end(count=2)
    world.talk(0.05)
    (failed,) = world.end(code=7)  # its place is given back, and another task gets one there
    for _ in range(100):
        world.pass_time(0.02)
        if "restart" in more:  # only after some failures
            world.end(code=7, job=failed)
        for prefix in NODES.values():
            while world.up[prefix]:
                world.hand_up(prefix)
        world.write()
        for prefix in NODES.values():
            while world.down[prefix]:
                orders = [type(one) for one in world.down[prefix]]
                if orders[:1] == [StartMember] and ExtendRun in orders:
                    return world, prefix
                world.hand_down(prefix)
    raise AssertionError("no place is given with a run")


def happens(world: Interleaved, prefix: bytes, what: str, failed: set[str]) -> None:
    """Let one event about this node's place happen."""
    if what == "order":
        world.hand_down(prefix)
    elif what == "fail":
        running = list(world.nodes[prefix].running) if prefix in world.nodes else []
        failed.update(world.nodes[prefix].end(process, 7).job for process in running[:1])
    elif what == "news":
        world.hand_up(prefix)
    elif what == "the store writes":
        world.write()
    elif what == "the connection breaks":
        world.break_connection(prefix)
    elif what == "the head restarts":
        world.restart()
    elif what == "the node dies":
        world.node_dies(prefix)


@pytest.mark.parametrize("retries", RETRIES)
def test_a_failure_takes_no_task_of_the_run_behind_it_along(retries: str) -> None:
    every = list(orders_of_messages())
    step = max(1, len(every) // examples(24))
    for order in every[len(retries) % step :: step]:
        world, prefix = new_place(**RETRIES[retries])
        failed = set(world.starts)
        for what in order:
            happens(world, prefix, what, failed)
        finish(world, ["a"])
        check(world, failed)


@pytest.mark.parametrize("retries", RETRIES)
@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_run_that_arrives_after_the_failure_before_it_does_not_begin(
    retries: str, trouble: str
) -> None:
    world, prefix = new_place(**RETRIES[retries])
    failed = set(world.starts)
    for what in ("order", "fail", "order"):
        happens(world, prefix, what, failed)
    assert not world.nodes[prefix].running
    happens(world, prefix, trouble, failed)
    finish(world, ["a"])
    check(world, failed)


@pytest.mark.parametrize("command", ["cancel", "requeue"])
def test_a_task_that_ends_well_before_it_is_ended_takes_no_other_along(command: str) -> None:
    world, prefix = new_place()
    failed = set(world.starts)
    happens(world, prefix, "order", failed)
    happens(world, prefix, "order", failed)
    ((process, order),) = world.nodes[prefix].running.items()
    world.settle()
    world.command(order.job.removeprefix("default/"), command)
    world.nodes[prefix].end(process)
    (behind,) = (order.job for order in world.nodes[prefix].running.values())
    world.settle()
    finish(world, ["a"])
    check(world, failed)
    assert len(world.starts[behind]) == 1 + (command == "requeue")


def test_a_held_array_keeps_the_tasks_that_may_have_begun() -> None:
    world, prefix = new_place()
    failed = set(world.starts)
    world.command("a", "hold")
    world.settle()
    assert world.nodes[prefix].running, "the order to begin was on its way"
    world.end(count=2)
    world.settle()
    world.command("a", "release")
    finish(world, ["a"])
    check(world, failed)


# ---- drawn orders ------------------------------------------------------------------------------

QUIET = {"message": 60, "end": 14, "fail": 4, "moment": 8, "long": 1}
FAULTS = {"the connection breaks": 1, "the head restarts": 1}
PEOPLE = {"requeue": 1, "cancel": 1, "hold": 1, "drain": 1, "others": 1, "priority": 1, "update": 1}


class Story:
    """A random sequence of events about one array with runs."""

    def __init__(self, seed: int, weights: dict[str, int]) -> None:
        self.rng = random.Random(seed)
        self.world = Interleaved(seed)
        self.weights = weights
        self.names = ["a"]
        self.failed: set[str] = set()
        self.came_back: set[str] = set()

    def play(self) -> Story:
        """Submit the array, let random events happen, and let all work end."""
        rng, world = self.rng, self.world
        more = rng.choice(list(RETRIES.values()))
        limit, cpus = rng.choice(["", "", "%1", "%3"]), rng.choice([4.0, 2.0])
        world.submit(f"0-{COUNT - 1}{limit}", cpus=cpus, **more).talk(0.05)
        for _ in range(rng.randint(50, 500)):
            (what,) = rng.choices(list(self.weights), list(self.weights.values()))
            with contextlib.suppress(JobCommandError, JobNotFoundError):  # it may not fit now
                self.happens(what)
            self.check_that_no_task_runs_twice()
            if world.job().is_held:
                # A task that waits to begin again, because it failed or lost its place to a job of
                # a higher priority, is held as one that has never begun.
                self.came_back |= set(world.starts) - set(world.good)
        self.let_go()
        finish(world, self.names)
        return self

    def check_that_no_task_runs_twice(self) -> None:
        """Check that no task runs in two places at the same time. Nodes that the head has declared
        dead do not count.
        """
        nodes = [node for prefix, node in self.world.nodes.items() if prefix not in self.world.died]
        running = [order.job for node in nodes for order in node.running.values()]
        assert len(running) == len(set(running)), sorted(running)

    def let_go(self) -> None:
        """Undo everything that keeps work from beginning, such as a held job."""
        for node_id in NODES:
            self.world.do(UndrainNode(node_id))
        if self.world.job().is_held:
            self.world.command("a", "release")

    def happens(self, what: str) -> None:
        """Let the event of this name happen."""
        rng, world = self.rng, self.world
        index = rng.randrange(COUNT)
        match what:
            case "message":
                world.step()
            case "end" | "fail":
                running = list(world.running)
                if running:
                    prefix, process = rng.choice(running)
                    order = world.nodes[prefix].end(process, 7 if what == "fail" else 0)
                    self.failed |= {order.job} if what == "fail" else set()
            case "moment":
                world.pass_time(rng.choice([0.01, 0.05, 0.2]))
            case "long":
                world.pass_time(rng.choice([0.6, 1.5]))
            case "requeue" | "cancel":
                world.command(f"a[{index}]", what)
            case "hold":
                held = world.job().is_held
                self.came_back |= self.failed
                world.command("a", "release" if held else "hold")
            case "drain":
                node_id = rng.choice(list(NODES))
                world.do(rng.choice([DrainNode(node_id, "a test"), UndrainNode(node_id)]))
            case "others" | "priority":
                self.names.append(f"b{len(self.names)}")
                world.submit("0-1", name=self.names[-1], priority=9 * (what == "priority"))
                world.write()
            case "update":
                world.do(UpdateJob(f"a[{index}]", priority=rng.choice([0, 5])))
            case _:
                happens(world, rng.choice(list(NODES.values())), what, self.failed)


@pytest.mark.parametrize(
    "weights",
    [QUIET, QUIET | FAULTS, QUIET | PEOPLE, QUIET | FAULTS | PEOPLE],
    ids=["failures", "faults", "people", "people and faults"],
)
def test_no_task_begins_twice_as_one_attempt(weights: dict[str, int]) -> None:
    for seed in range(examples(24)):
        story = Story(seed, weights).play()
        check(story.world, story.failed, story.came_back)
