"""Steps of jobs at the head: each has a number and exactly one record, at whatever moment the head
dies.
"""

from __future__ import annotations

import pytest

from phalanx.errors import JobCommandError
from phalanx.head.accounting.steps import PATIENCE_S
from phalanx.model.attempts import Used
from phalanx.model.steps import RUNNING
from phalanx.observe.accounting.questions import AttemptQuery
from phalanx.protocol.bundle_messages import (
    MemberNews,
    SignalMember,
    StartStep,
    StepEnded,
    StepStarted,
)
from phalanx.protocol.requests.jobs import CommandJob
from phalanx.protocol.requests.steps import BeginStep, RunStep, SignalJob

from .test_attempt_records import Accounted, ended

USED = Used(ran_s=1.0, cpu_s=2.0, memory_max=100.0, memory_mean=50.0, samples=1)
NODE = "ab"


class Stepped(Accounted):
    """A head with a running job of one member, which starts steps."""

    def __init__(self):
        super().__init__()
        self.order = self.begun(NODE)

    def begin(self, tasks=1, **fields):
        return self.ask(BeginStep("job", ["/bin/train", "fast"], tasks, **fields))

    def task(self, step):
        """Return the order that the node got for this step."""
        self.ask(RunStep("job", "", ["/bin/train", "fast"], step=step))
        order = [m for _, m in self.told if isinstance(m, StartStep)][-1]
        self.hear(NODE, StepStarted(order.token))
        return order

    def end(self, order, code=0, is_cut=False):
        about = (order.group, order.index, order.attempt, order.step, order.task)
        self.hear(NODE, StepEnded(*about, code, is_cut, USED))

    def steps(self):
        self.records()
        found = sorted(self.ledger.steps.values(), key=lambda one: one.number)
        return [(one.number, one.state, one.exit_code) for one in found]

    def running_steps(self):
        query = AttemptQuery(has_steps=True)
        return [one.number for one in self.scheduler.jobs.steps.running_steps(query)]


@pytest.fixture
def world():
    return Stepped()


def test_steps_are_numbered_and_written_down_once_all_their_tasks_have_ended(world):
    first = world.begin(tasks=2, name="fit")
    second = world.begin()
    assert (first, second) == (0, 1)
    one = world.task(first)
    world.end(one, 3)
    assert world.running_steps() == [0, 1] or world.running_steps() == [1, 0]
    two = world.task(first)
    assert (one.task, two.task) == (0, 1)
    world.now += 7.0
    world.end(two)
    assert world.running_steps() == [1]
    assert world.steps() == [(0, "Failed", 3)]
    [step] = world.ledger.steps.values()
    assert (step.job, step.namespace, step.name, step.user) == ("job", "default", "fit", "ann")
    assert (step.command, step.tasks, step.cpus) == ("/bin/train fast", 2, 1.0)
    assert (step.cpu_s, step.memory_max, step.memory_mean) == (4.0, 100.0, 50.0)
    assert step.ended - step.started == 7.0
    world.end(world.task(second))
    assert world.steps()[1] == (1, "Completed", 0)
    assert not list(world.journal.storage.load("steps"))


def test_an_end_that_is_told_twice_counts_once(world):
    number = world.begin(tasks=2)
    one, two = world.task(number), world.task(number)
    world.end(one, 1)
    world.end(one, 1)
    assert world.running_steps() == [number]
    world.end(two)
    world.end(two)
    assert world.steps() == [(0, "Failed", 1)]


def test_a_head_that_comes_back_knows_steps_and_gives_no_number_twice(world):
    number = world.begin()
    order = world.task(number)
    world.go_on()
    world.restart()
    world.add(NODE)
    world.hear(NODE, MemberNews(world.order.group, world.order.index, world.order.attempt))
    world.go_on()
    assert world.running_steps() == [number]
    world.end(order, 4)
    assert world.begin() == number + 1
    assert world.steps() == [(number, "Failed", 4)]


def test_steps_end_with_their_member(world):
    told, silent = world.begin(), world.begin()
    order, _ = world.task(told), world.task(silent)
    world.end(order, 143, is_cut=True)
    world.hear(NODE, ended(world.order, 0))
    world.go_on()
    assert world.steps() == [(told, "Terminated", 143), (silent, "Terminated", None)]
    assert world.running_steps() == []


def test_steps_end_with_their_node(world):
    world.task(world.begin())
    world.kill(NODE)
    assert world.steps() == [(0, "NodeLost", None)]


def test_whose_tasks_do_not_come_is_over(world):
    number = world.begin(tasks=2)
    world.end(world.task(number))
    world.scheduler.tick(world.now)
    assert world.running_steps() == [number]
    world.now += PATIENCE_S
    world.scheduler.tick(world.now)
    assert world.running_steps() == []
    assert world.steps() == [(number, "Terminated", 0)]
    with pytest.raises(JobCommandError, match="is over"):
        world.ask(RunStep("job", "", ["true"], step=number))


def test_a_task_that_its_node_refuses_is_over(world):
    number = world.begin()
    world.ask(RunStep("job", "", ["true"], step=number))
    order = [m for _, m in world.told if isinstance(m, StartStep)][-1]
    world.hear(NODE, StepStarted(order.token, "why not"))
    assert world.steps() == [(number, "Failed", None)]


def test_a_step_runs_in_a_job_that_runs_and_has_tasks(world):
    with pytest.raises(ValueError, match="a step has 1 to 100,000 tasks, not 0"):
        world.begin(tasks=0)
    world.ask(CommandJob("default/job", "cancel"))
    world.hear(NODE, ended(world.order, 143))
    world.go_on()
    with pytest.raises(JobCommandError, match="does not run: it is Terminated"):
        world.begin()


def test_questions_about_steps_that_run(world):
    world.begin()
    running = world.scheduler.jobs.steps.running_steps
    for fields, number in (
        ({}, 1),
        ({"job": "default/job"}, 1),
        ({"job": "default/jo"}, 0),
        ({"users": ["ann"], "queues": ["default"], "states": [RUNNING]}, 1),
        ({"users": ["bob"]}, 0),
        ({"queues": ["lab"]}, 0),
        ({"states": ["Failed"]}, 0),
    ):
        assert len(running(AttemptQuery(has_steps=True, **fields))) == number, fields
    assert running(AttemptQuery()) == []


def test_a_signal_is_sent_to_members_that_run(world):
    about = (world.order.group, world.order.index, world.order.attempt)
    assert world.ask(SignalJob("job", 10)) == 1
    assert world.ask(SignalJob("default/job", 12, "all", "a-0")) == 1
    sent = [m for _, m in world.told if isinstance(m, SignalMember)]
    assert sent == [SignalMember(*about, 10), SignalMember(*about, 12, "all")]
    for request, why in (
        (SignalJob("job", 0), "a signal is a number from 1 to 64, not 0"),
        (SignalJob("job", 10, member="b-0"), "job default/job has no member 'b-0'; it has a-0"),
    ):
        with pytest.raises((ValueError, JobCommandError), match=why):
            world.ask(request)
    world.ask(CommandJob("default/job", "cancel"))
    for member, who in (("", "^job"), ("a-0", "member a-0 of job")):
        why = f"{who} default/job does not run: it is Terminating"
        with pytest.raises(JobCommandError, match=why):
            world.ask(SignalJob("job", 10, member=member))
