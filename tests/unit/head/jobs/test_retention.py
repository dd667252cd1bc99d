"""The head forgets finished jobs when they are old or too many. It removes their environment
variables immediately.
"""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.head.gangs.test_what_people_see import PROCESS, settle
from tests.world.cluster import stored_world

from phalanx.head.jobs import retention
from phalanx.head.jobs.retention import KEPT_S
from phalanx.model.jobs.spec import TaskGroup, Template
from phalanx.protocol.requests.jobs import CommandJob, ListJobs


@pytest.fixture
def world():
    world = stored_world()
    world.add("n1", CPU=4.0)
    return world


def over(world, name):
    """Make a job that has ended, with large environment variables."""
    process = msgspec.structs.replace(PROCESS, env=(("LARGE", "x" * 10_000),))
    template = Template(processes=(process,), restart="Never")
    world.job(TaskGroup(name="a", replicas=1, template=template), name=name)
    settle(world)
    world.now += 1.0
    world.ask(CommandJob(name, "cancel"))
    settle(world)


def names(world, **asked):
    return [row.name for row in world.ask(ListJobs(**asked))]


def test_the_first_that_ended_leave_when_there_are_too_many(world, monkeypatch):
    monkeypatch.setattr(retention, "KEPT", 2)
    for name in ("one", "two", "three"):
        over(world, name)
    assert names(world) == ["two", "three"]
    world.write()
    world.restart()
    monkeypatch.setattr(retention, "KEPT", 1)
    world.restart()
    world.head.on_tick(world.now)
    assert names(world) == ["three"]


def test_old_ones_leave(world):
    over(world, "old")
    world.now += KEPT_S - 60.0
    over(world, "new")
    world.now += 120.0
    world.head.on_tick(world.now)
    assert names(world) == ["new"]


def test_a_listing_may_leave_out_what_ended_long_ago(world):
    over(world, "old")
    world.now += 7_200.0
    over(world, "new")
    assert names(world) == ["old", "new"]
    assert names(world, ended_within_s=3_600.0) == ["new"]


def test_the_variables_of_a_finished_job_are_dropped(world):
    over(world, "done")
    record = world.scheduler.jobs.table.get("default/done")
    assert record.finished is not None
    (process,) = record.spec.groups[0].template.processes
    assert process.env == ()
    assert process.command == PROCESS.command
