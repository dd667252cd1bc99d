"""Limits of users in queues, as the head enforces them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.world.clock import ManualClock
from tests.world.head import ask, make_head

from phalanx.errors import JobCommandError, QueueUnavailableError
from phalanx.head.head import Head
from phalanx.model.jobs.arrays import ArraySpec
from phalanx.model.jobs.spec import JobSpec, Process, TaskGroup, Template
from phalanx.model.jobs.timing import Timing
from phalanx.protocol.requests.jobs import (
    ApplyManifests,
    CommandJob,
    DeleteJob,
    Manifest,
    UpdateJob,
)
from phalanx.protocol.requests.queues import CreateQueue, QueueFields
from phalanx.protocol.requests.user_limits import ListLimits, SetLimits


class Place:
    """A head with a clock that the test sets."""

    def __init__(self) -> None:
        self.clock = ManualClock(0.0)
        self.head: Head = make_head(lambda prefix, message: None, self.clock)
        ask(self.head, CreateQueue("lab", QueueFields()))
        ask(self.head, CreateQueue("night", QueueFields(parent="lab")))

    def submit(self, name: str, user: str = "ana", **fields: Any) -> None:
        group = TaskGroup(name="w", template=Template(processes=(Process(command=("true",)),)))
        spec = JobSpec(name=name, user=user, groups=(group,), **{"queue": "night", **fields})
        request = ApplyManifests([Manifest("Job", msgspec.msgpack.encode(spec))])
        ask(self.head, request)

    def spec(self, name: str) -> JobSpec:
        record = self.head.gang_scheduler.jobs.table.get(f"default/{name}")
        assert record is not None
        return record.spec

    def limit(self, queue: str, user: str, **limits: float | None) -> None:
        ask(self.head, SetLimits(queue, user, limits))


@pytest.fixture
def place() -> Place:
    return Place()


@pytest.mark.parametrize("queue", ["night", "lab", "root"])
def test_waiting_jobs_of_a_user_are_counted_in_the_subtree(place: Place, queue: str) -> None:
    place.limit(queue, "ana", waiting=2)
    place.submit("one")
    place.submit("two")
    with pytest.raises(JobCommandError, match=rf"ana in queue {queue} may have 2 .* and has 2"):
        place.submit("three")
    place.submit("of-bo", user="bo")
    ask(place.head, CommandJob("one", "cancel"))
    place.submit("three")
    ask(place.head, DeleteJob("two"))
    place.submit("four")
    with pytest.raises(JobCommandError):
        place.submit("five")


def test_each_task_of_an_array_waits(place: Place) -> None:
    place.limit("lab", "*", waiting=5)
    place.submit("a", array=ArraySpec(ranges=((0, 3, 1),)))
    with pytest.raises(JobCommandError, match="may have 5 jobs waiting, and has 4"):
        place.submit("b", array=ArraySpec(ranges=((0, 1, 1),)))
    place.submit("c")


def test_the_row_of_a_user_replaces_that_of_all(place: Place) -> None:
    place.limit("lab", "*", waiting=0)
    place.limit("lab", "ana", waiting=1)
    place.submit("one")
    with pytest.raises(JobCommandError):
        place.submit("two", user="bo")
    place.limit("lab", "ana", waiting=9)
    place.submit("three")
    place.limit("root", "*", waiting=2)
    with pytest.raises(JobCommandError, match="ana in queue root may have 2 jobs waiting"):
        place.submit("four")


def test_a_longer_time_is_refused_and_none_is_the_limit(place: Place) -> None:
    place.limit("lab", "ana", time_s=3600.0)
    place.submit("one")
    assert place.spec("one").timing.limit_s == 3600.0
    place.submit("two", timing=Timing(limit_s=60.0))
    assert place.spec("two").timing.limit_s == 60.0
    with pytest.raises(JobCommandError, match="may run a job for at most 1h"):
        place.submit("three", timing=Timing(limit_s=7200.0))
    place.submit("four", user="bo")
    assert place.spec("four").timing.limit_s is None


@pytest.mark.parametrize(
    ("fields", "limit_s"),
    [
        ({"max_time_s": 7200.0}, 3600.0),
        ({"default_time_s": 7200.0}, 3600.0),
        ({"default_time_s": 60.0}, 60.0),
        ({"max_time_s": 1800.0}, 1800.0),
    ],
)
def test_a_job_without_a_time_gets_the_shortest_that_applies(
    place: Place, fields: dict[str, Any], limit_s: float
) -> None:
    ask(place.head, CreateQueue("short", QueueFields(parent="lab", **fields)))
    place.limit("short", "ana", time_s=5400.0)
    place.limit("lab", "ana", time_s=3600.0)
    place.submit("one", queue="short")
    assert place.spec("one").timing.limit_s == limit_s
    place.submit("two", queue="default")
    ask(place.head, UpdateJob("two", queue="short"))
    assert place.spec("two").timing.limit_s == limit_s


def test_submissions_a_second(place: Place) -> None:
    place.limit("lab", "ana", submits_per_s=0.2)
    place.submit("a")
    place.submit("b")
    with pytest.raises(JobCommandError, match=r"may submit 0.2 jobs a second, .* 2 may come"):
        place.submit("c")
    place.submit("of-bo", user="bo")
    place.clock.time_s += 5.0
    place.submit("c")
    with pytest.raises(JobCommandError):
        place.submit("d")
    place.limit("lab", "ana", submits_per_s=None)
    place.submit("d")


def test_a_refused_job_costs_no_submission(place: Place) -> None:
    place.limit("lab", "ana", submits_per_s=0.1, waiting=1)
    place.limit("root", "ana", waiting=0)
    with pytest.raises(JobCommandError, match="in queue root"):
        place.submit("a")
    place.limit("root", "ana", waiting=None)
    place.submit("a")


def test_limits_are_listed_changed_and_removed(place: Place) -> None:
    place.limit("lab", "ana", running=2, gpus=4.5)
    place.limit("lab", "ana", gpus=None, priority=3)
    place.submit("one")
    (row,) = ask(place.head, ListLimits("lab")) or []
    assert (row.running, row.gpus, row.priority, row.now_waiting) == (2, None, 3, 1)
    place.limit("lab", "ana", running=None, priority=None)
    assert ask(place.head, ListLimits()) == []


@pytest.mark.parametrize(
    ("limits", "error"),
    [
        ({"runing": 1}, "there is no limit 'runing'.*did you mean 'running'"),
        ({"running": -1}, "a limit is 0 or more"),
        ({"running": 1.5}, "running"),
        ({"gpus": float("nan")}, "gpus"),
        ({"waiting": float("inf")}, "waiting"),
    ],
)
def test_odd_limits_are_refused(place: Place, limits: dict[str, float | None], error: str) -> None:
    with pytest.raises(JobCommandError, match=error):
        ask(place.head, SetLimits("lab", "ana", limits))
    assert ask(place.head, ListLimits()) == []


def test_a_queue_that_does_not_exist(place: Place) -> None:
    with pytest.raises(QueueUnavailableError):
        place.limit("no", "ana", running=1)


def test_the_highest_priority_is_the_least_of_the_path(place: Place) -> None:
    highest = place.head.gang_scheduler.user_limits.max_priority
    assert (highest("night", "ana", None), highest("night", "ana", 0)) == (None, 0)
    place.limit("night", "ana", priority=9)
    assert (highest("night", "ana", None), highest("night", "ana", 0)) == (9, 0)
    place.limit("root", "*", priority=5)
    assert highest("night", "ana", 0) == 5
    place.limit("lab", "ana", priority=-3)
    assert highest("night", "ana", 0) == -3
