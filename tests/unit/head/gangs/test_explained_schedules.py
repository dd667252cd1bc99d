"""What `explain` says about cron jobs and flows."""

from __future__ import annotations

import msgspec
import pytest
from tests.world.cluster import one_node

from phalanx.errors import JobNotFoundError
from phalanx.model.jobs.spec import CronSpec, FlowSpec, JobSpec, Process, Step, TaskGroup, Template
from phalanx.protocol.requests.gangs import Explain
from phalanx.protocol.requests.jobs import ApplyManifests, CommandJob, Manifest
from phalanx.protocol.requests.queues import DeleteQueue

HOUR_S = 3600.0


@pytest.fixture
def world():
    return one_node(1)


def _job(queue="default"):
    process = Process(command=("true",), requests=(("CPU", 1.0),))
    return JobSpec(
        name="t",
        queue=queue,
        groups=(TaskGroup(name="g", template=Template(processes=(process,))),),
    )


def _apply(world, kind, spec):
    world.ask(ApplyManifests([Manifest(kind, msgspec.msgpack.encode(spec))]))


def _cron(world, queue="default", **fields):
    fields = {"schedule": "0 * * * *", **fields}
    _apply(world, "CronJob", CronSpec(name="c", job=_job(queue), **fields))


def _later(world, seconds):
    world.now += seconds
    world.head.on_tick(world.now)
    world.rounds(3)


def _explained(world, name="c"):
    return str(world.ask(Explain(name)))


def test_a_cron_job_says_when_it_makes_the_next_job_and_made_the_last(world):
    _cron(world)
    assert _explained(world).splitlines() == [
        "cron job default/c does not wait: it makes its next job at 1970-01-01 01:00:00 UTC",
        "  - it has made no job yet",
    ]
    _later(world, HOUR_S)
    assert _explained(world).splitlines() == [
        "cron job default/c does not wait: it makes its next job at 1970-01-01 02:00:00 UTC",
        "  - it made its last job at 1970-01-01 01:01:40 UTC: c-60, which has not finished",
    ]


def test_the_next_job_of_an_interval_counts_from_the_last_one(world):
    _cron(world, schedule="@every 1h")
    _later(world, 600.0)
    assert "next job at 1970-01-01 01:01:40 UTC" in _explained(world)
    _later(world, HOUR_S)
    assert "next job at 1970-01-01 02:01:40 UTC" in _explained(world)


def test_times_are_those_of_the_cron_job_s_zone(world):
    _cron(world, time_zone="Asia/Tokyo", schedule="0 12 * * *")
    assert "at 1970-01-01 12:00:00 JST" in _explained(world, "default/c")


def test_one_that_is_suspended_says_by_what_and_how_it_goes_on(world):
    _cron(world)
    world.ask(CommandJob("c", "suspend"))
    assert _explained(world).splitlines()[:3] == [
        "cron job default/c does not wait: it is suspended",
        "  - suspended by command at 1970-01-01 00:01:40 UTC",
        "    to change that: phalanx resume c",
    ]
    _cron(world, suspend=False)
    world.now += 60.0
    _cron(world, suspend=True)
    assert "suspended by its manifest at 1970-01-01 00:02:40 UTC" in _explained(world)


def test_one_whose_manifest_began_suspended_says_so(world):
    _cron(world, suspend=True)
    assert "suspended by its manifest at 1970-01-01 00:01:40 UTC" in _explained(world)


def test_a_time_that_waits_for_the_job_before_it(world):
    _cron(world, concurrency="Forbid")
    _later(world, HOUR_S)
    _later(world, HOUR_S)
    said = _explained(world)
    assert "a job that is due waits until c-60 has ended (concurrencyPolicy: Forbid)" in said


def test_a_job_that_could_not_be_made(world):
    world.queue("lab")
    _cron(world, queue="lab")
    world.ask(DeleteQueue("lab"))
    _later(world, HOUR_S)
    assert "c-60 could not be made: there is no queue 'lab'" in _explained(world)
    _cron(world, queue="default")
    _later(world, HOUR_S)
    assert "could not be made" not in _explained(world)


def test_a_schedule_that_has_no_next_time(world):
    _cron(world, schedule="0 0 30 2 *")
    assert "has no next time: '0 0 30 2 *' never comes" in _explained(world)


def test_a_flow_says_what_each_step_waits_for(world):
    _apply(world, "JobTemplate", msgspec.structs.replace(_job(), name="a"))
    steps = (Step(name="a"), Step(name="b", targets=("a",)))
    _apply(world, "JobFlow", FlowSpec(name="f", steps=steps))
    world.rounds(3)
    assert _explained(world, "f").splitlines() == [
        "flow default/f does not wait: it is Pending",
        "  - step a: its job default/f-a is Pending",
        "    to change that: phalanx explain f-a",
        "  - step b has no job yet: it waits for a",
    ]


def test_what_is_nothing_is_not_found(world):
    with pytest.raises(JobNotFoundError, match="none"):
        _explained(world, "none")
