"""Queues are created, changed and refused; they share by weight, and use priority, preemption and
reclaim.
"""

from __future__ import annotations

import os
import signal
import sys

import pytest
from tests.polling import eventually

import phalanx
from phalanx.errors import GangInfeasibleError, JobCommandError, QueueUnavailableError

from .conftest import none_left, rows_of_gangs


@pytest.fixture(autouse=True)
def no_queues_left(machine):
    yield
    eventually(none_left)
    names = [queue["name"] for queue in phalanx.queues()]
    for name in reversed(names):
        if name not in ("root", "default"):
            phalanx.delete_queue(name)


@phalanx.remote
def hold(room, name="there", until="go"):
    """Leave a mark and wait for another one; on SIGTERM leave a mark and end."""
    rank = os.environ["RANK"]

    def warned(*_):
        room.say(f"{name}-warned-{rank}")
        sys.exit(0)

    signal.signal(signal.SIGTERM, warned)
    room.say(f"{name}-{rank}")
    room.wait(until)
    return name


def test_a_queue_is_made_changed_closed_opened_and_deleted(machine, get, room):
    made = phalanx.create_queue(
        "lab", weight=2, capability={"CPU": 3}, guarantee={"CPU": 1}, deserved={"CPU": 2}
    )
    assert (made["state"], made["weight"], made["capability"]) == ("Open", 2, {"CPU": 3.0})
    assert phalanx.update_queue("lab", weight=5)["weight"] == 5
    gang = hold.gang(2, queue="lab").remote(room)
    room.wait("there-0")
    [row] = [queue for queue in phalanx.queues() if queue["name"] == "lab"]
    assert (row["running"], row["members"]) == (1, 2)
    with pytest.raises(JobCommandError, match="still hold resources"):
        phalanx.delete_queue("lab")
    assert phalanx.close_queue("lab")["state"] == "Closing"
    with pytest.raises(QueueUnavailableError, match="Closing"):
        hold.gang(2, queue="lab").remote(room)
    room.say("go")
    assert get(gang) == ["there"] * 2
    eventually(none_left)
    assert {q["name"]: q["state"] for q in phalanx.queues()}["lab"] == "Closed"
    assert phalanx.open_queue("lab")["state"] == "Open"
    phalanx.delete_queue("lab")
    with pytest.raises(QueueUnavailableError, match="no queue 'lab'"):
        phalanx.update_queue("lab", weight=1)


@phalanx.remote
def one():
    return 1


@phalanx.remote
class Idle:
    pass


POD = {"spec": {"containers": [{"name": "c", "command": ["true"]}]}}


def _spec(queue):
    return {"queue": queue, "tasks": [{"name": "t", "replicas": 1, "template": POD}]}


def _manifest(kind, spec):
    part = "flow" if kind in ("JobTemplate", "JobFlow") else "batch"
    version = f"{part}.volcano.sh/v1alpha1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "m"}, "spec": spec}


def _of_flow(queue):
    template = {**_manifest("JobTemplate", _spec(queue)), "metadata": {"name": "step"}}
    phalanx.submit_manifests(template)
    phalanx.submit_manifests(_manifest("JobFlow", {"flows": [{"name": "step"}]}))


CALLS = {
    "task": lambda queue: one.options(queue=queue).remote(),
    "decorated task": lambda queue: phalanx.remote(queue=queue)(lambda: 1).remote(),
    "optioned decorated task": lambda queue: (
        phalanx.remote(queue=queue)(lambda: 1).options(num_cpus=0.5).remote()
    ),
    "task by _remote": lambda queue: one._remote(queue=queue),
    "bound task": lambda queue: one.options(queue=queue).bind().execute(),
    "actor": lambda queue: Idle.options(queue=queue).remote(),
    "decorated actor": lambda queue: phalanx.remote(queue=queue)(
        type("Decorated", (), {})
    ).remote(),
    "actor by _remote": lambda queue: Idle._remote(queue=queue),
    "named actor": lambda queue: Idle.options(queue=queue, name="n", get_if_exists=True).remote(),
    "bound actor": lambda queue: Idle.options(queue=queue).bind().execute(),
    "gang": lambda queue: one.gang(2, queue=queue).remote(),
    "gang of options": lambda queue: one.options(queue=queue).gang(2).remote(),
    "gang of optioned": lambda queue: one.options(num_cpus=0.5).gang(2, queue=queue).remote(),
    "decorated gang": lambda queue: phalanx.remote(queue=queue)(lambda: 1).gang(2).remote(),
    "gang of actors": lambda queue: Idle.gang(2, queue=queue).remote(),
    "gang of optioned actors": lambda queue: Idle.options(queue=queue).gang(2).remote(),
    "job": lambda queue: phalanx.submit(phalanx.Job("true", queue=queue)),
    "manifest of a job": lambda queue: phalanx.submit(_manifest("Job", _spec(queue))),
    "cron job": lambda queue: phalanx.submit_manifests(
        _manifest("CronJob", {"schedule": "@yearly", "jobTemplate": {"spec": _spec(queue)}})
    ),
    "flow": _of_flow,
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_queue_that_takes_no_work_is_refused_at_the_call(machine, call):
    phalanx.create_queue("laboratory")
    with pytest.raises(QueueUnavailableError, match=r"'labratory'.*; did you mean 'laboratory'"):
        call("labratory")
    phalanx.close_queue("laboratory")
    with pytest.raises(QueueUnavailableError, match="laboratory is Closed"):
        call("laboratory")


def test_tasks_of_a_queue_that_is_deleted_later_fail(machine, get):
    phalanx.create_queue("lab")
    bound = one.options(queue="lab")
    assert get(bound.remote()) == 1
    phalanx.delete_queue("lab")

    def fails():
        """Whether a call fails because the queue was deleted. Calls may still succeed for a moment,
        on the worker that ran the first one.
        """
        try:
            return get(bound.remote()) != 1
        except QueueUnavailableError as error:
            return "queue lab was deleted" in str(error)

    eventually(fails)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"weight": -1}, "weight"),
        ({"guarantee": {"CPU": 2}, "deserved": {"CPU": 1}}, "guarantee"),
        ({"parent": "nobody"}, "nobody"),
        ({"capability": {"CPU": -1}}, "cpu must be an amount from 0 to 2.63, not -1$"),
        ({"capability": {"": 1}}, "capability names no resource"),
        ({"weight": 1.5}, "weight: expected a whole number, got a number$"),
        ({"capability": {"CPU": "x"}}, "expected a number, got a text$"),
        ({"capability": 3}, "capability: expected amounts by resource, got a whole number$"),
        ({"weight": 10**30}, "weight or priority is at most 2147483647"),
    ],
)
def test_a_queue_that_breaks_a_rule_is_refused(machine, fields, words):
    with pytest.raises((JobCommandError, ValueError), match=words):
        phalanx.create_queue("odd", **fields)
    assert "odd" not in [queue["name"] for queue in phalanx.queues()]


def test_a_gang_larger_than_its_queue_may_ever_use_is_refused(machine, room):
    phalanx.create_queue("small", capability={"CPU": 2})
    with pytest.raises(GangInfeasibleError, match="queue small may use at most 2 CPU"):
        hold.gang(3, queue="small").remote(room)


def test_a_queue_takes_no_more_than_its_capability(machine, get, room):
    phalanx.create_queue("small", capability={"CPU": 2})
    gangs = [hold.gang(1, queue="small").remote(room, f"g{i}") for i in range(4)]
    other = hold.gang(1).remote(room, "other")
    room.wait("other-0")
    room.wait("g0-0")
    room.wait("g1-0")
    assert {row["phase"] for row in rows_of_gangs() if row["queue"] == "small"} == {
        "running",
        "pending",
    }
    assert not room.hears("g2-0")
    room.say("go")
    get([ref for gang in (*gangs, other) for ref in gang])


@phalanx.remote
def says_who_came_before(room, name, other):
    """Leave a mark; return whether the other gang had already begun."""
    room.say(f"{name}-{os.environ['RANK']}")
    return room.hears(f"{other}-0")


def test_a_higher_priority_goes_first(machine, get, room):
    first = hold.gang(4, priority=9).remote(room, "first")
    room.wait("first-0")
    low = says_who_came_before.gang(4).remote(room, "low", "high")
    high = says_who_came_before.gang(4, priority=5).remote(room, "high", "low")
    room.say("go")
    assert get(first) == ["first"] * 4
    assert get(high) == [False] * 4
    assert get(low) == [True] * 4


def test_a_higher_priority_preempts_a_whole_gang_which_then_runs_again(machine, get, room):
    low = hold.gang(3, grace_s=60).remote(room, "low")
    for rank in range(3):
        room.wait(f"low-{rank}")
    high = hold.gang(4, priority=5).remote(room, "high")
    for rank in range(3):
        room.wait(f"low-warned-{rank}")
    for rank in range(4):
        room.wait(f"high-{rank}")
    [waiting] = [
        row for row in rows_of_gangs() if row["name"].startswith("hold") and row["priority"] == 0
    ]
    assert (waiting["phase"], waiting["preempted"]) == ("pending", 1)
    room.say("go")
    assert get(high) == ["high"] * 4
    assert get(low) == ["low"] * 3


def test_a_member_that_ignores_the_warning_is_killed_after_its_grace(machine, get, room):
    @phalanx.remote(max_retries=0)
    def deaf(room):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if not room.hears("deaf"):
            room.say("deaf")
            room.wait("never")
        return "second"

    low = deaf.gang(1, grace_s=0.1).remote(room)
    room.wait("deaf")
    assert get(hold.gang(4, priority=5).remote(room, "high", "deaf")) == ["high"] * 4
    assert get(low) == ["second"]


def test_a_guarantee_is_taken_back_from_a_queue_that_borrowed_it(machine, get, room):
    phalanx.create_queue("rich", deserved={"CPU": 2}, guarantee={"CPU": 2})
    phalanx.create_queue("poor", deserved={"CPU": 2})
    borrowed = [hold.gang(2, queue="poor").remote(room, f"poor{i}") for i in range(2)]
    room.wait("poor0-0")
    if not phalanx.available_resources().get("CPU"):
        room.wait("poor1-0")
    own = hold.gang(2, queue="rich").remote(room, "rich")
    room.wait("rich-0")
    room.say("go")
    assert get(own) == ["rich"] * 2
    for i, gang in enumerate(borrowed):
        assert get(gang) == [f"poor{i}"] * 2
