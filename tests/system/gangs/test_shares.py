"""Shares, guarantees and preemption of gangs and jobs, checked by the events that the head
recorded.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from tests.polling import PATIENCE_S, eventually
from tests.unit.head.gangs.checking import faults, of_gangs

import phalanx

from .conftest import none_left

GPUS = 6
EACH = 16
"""The number of gangs of each queue, and also the number of jobs of each queue."""


@pytest.fixture(scope="module")
def machine():
    phalanx.init(num_cpus=2, num_gpus=GPUS)
    yield phalanx
    phalanx.shutdown()


@pytest.fixture(autouse=True)
def nothing_left(machine):
    yield
    for row in phalanx.jobs():
        phalanx.JobHandle(row["name"], row["namespace"]).delete()
    eventually(none_left)
    for queue in phalanx.queues():
        if queue["name"] not in ("root", "default"):
            phalanx.delete_queue(queue["name"])


def recorded():
    return of_gangs(phalanx.cluster_events())


def running(rows):
    """Yield the number of members of each queue that run, after each of these rows in which members
    are placed.
    """
    count: dict[Any, Any] = {}
    for row in rows:
        queue = row["queue"]
        if row["event"] == "MembersPlaced":
            count[queue] = count.get(queue, 0) + len(row["places"])
            yield dict(count)
        elif row["event"] == "MembersFreed":
            count[queue] -= len(row["members"])


def brief(row):
    """Return an event as a short text: time, event, queue, gang and members."""
    members = row.get("members") or [index for index, *_ in row.get("places", ())]
    return f"{row['at']:.3f} {row['event']} {row['queue']} {row['gang']} {members}"


@phalanx.remote(num_gpus=1, num_cpus=0)
def nothing():
    return os.environ["RANK"]


def test_two_queues_of_weights_2_and_1_share_in_that_measure_while_both_are_busy(machine, room):
    before = len(recorded())
    first = phalanx.submit(
        phalanx.Job(
            f"touch {room.path}/there; while [ ! -e {room.path}/go ]; do sleep 0.05; done",
            num_gpus=GPUS,
            num_cpus=0,
            name="first",
        )
    )
    room.wait("there")  # nothing finds room until all wait
    gangs, jobs = [], []
    for name, weight in (("two", 2), ("one", 1)):
        phalanx.create_queue(name, weight=weight)
        for number in range(EACH):
            gangs.append(nothing.gang(2, queue=name).remote())
            job = phalanx.Job(
                "true", name=f"{name}-{number}", queue=name, members=2, num_gpus=1, num_cpus=0
            )
            jobs.append(phalanx.submit(job))
    room.say("go")
    assert first.wait(PATIENCE_S) == "Completed"
    assert [phalanx.get(list(gang), timeout=PATIENCE_S) for gang in gangs] == [
        ["0", "1"]
    ] * 2 * EACH
    assert {job.wait(PATIENCE_S) for job in jobs} == {"Completed"}
    eventually(none_left)
    rows = recorded()[before:]
    assert list(faults(rows)) == []
    # For as long as each queue wants more than its share beside what it holds. A gang of two that
    # finds one free and one left over takes a queue one beyond its share; no queue comes further.
    left = {"two": 4 * EACH, "one": 4 * EACH}
    both_want = 0
    for row in (row for row in rows if row["event"] == "MembersPlaced" and row["queue"] in left):
        left[row["queue"]] -= len(row["places"])
        if left["two"] < 4 or left["one"] < 2:
            break
        both_want += 1
    held = [(count.get("two", 0), count.get("one", 0)) for count in running(rows)][:both_want]
    beyond = [(two, one) for two, one in held if two > 4 + 1 or one > 2 + 1]
    assert not beyond, "\n".join(map(brief, rows))
    full = [two for two, one in held if two + one == GPUS]
    assert len(full) >= EACH / 4
    assert sum(full) / len(full) == pytest.approx(4, abs=0.25)


def command(room, word):
    """Return shell code that leaves a mark and waits for another one; on SIGTERM it ends."""
    return f"touch {room.path}/{word}-$RANK; while [ ! -e {room.path}/go ]; do sleep 0.05; done"


def submit(room, name, members, **options):
    return phalanx.submit(
        phalanx.Job(
            command(room, name), name=name, members=members, num_cpus=0, num_gpus=1, **options
        )
    )


def evictions(rows):
    return [
        (row["gang"].partition("/")[2], row["action"], row["members"])
        for row in rows
        if row["event"] == "MembersEvicted"
    ]


def test_a_queue_gets_its_guarantee_back_by_reclaim(machine, room):
    before = len(recorded())
    phalanx.create_queue("owner", guarantee={"GPU": 3}, deserved={"GPU": 3})
    phalanx.create_queue("borrower", deserved={"GPU": 3})
    borrowed = submit(room, "borrowed", 3, queue="borrower")
    also = submit(room, "also", 3, queue="borrower")
    for name in ("borrowed", "also"):
        room.wait(f"{name}-2")
    own = submit(room, "own", 3, queue="owner")
    for rank in range(3):
        room.wait(f"own-{rank}")
    [(name, action, members)] = evictions(recorded()[before:])
    assert name in ("borrowed", "also")
    assert (action, sorted(members)) == ("reclaim", [0, 1, 2])
    room.say("go")
    assert [job.wait(PATIENCE_S) for job in (own, borrowed, also)] == ["Completed"] * 3
    assert {job.describe()["retries"] for job in (borrowed, also)} == {0}


def test_a_higher_priority_preempts_a_whole_gang_which_waits_again_and_completes(machine, room):
    before = len(recorded())
    low = submit(room, "low", 4)
    room.wait("low-3")
    high = submit(room, "high", 3, priority=5)
    for rank in range(3):
        room.wait(f"high-{rank}")
    assert low.state == "Pending"
    assert evictions(recorded()[before:]) == [("low", "preempt", [0, 1, 2, 3])]
    room.say("go")
    assert [high.wait(PATIENCE_S), low.wait(PATIENCE_S)] == ["Completed", "Completed"]
    rows = recorded()[before:]
    assert list(faults(rows)) == []
    story = [row["event"] for row in rows if row["gang"] == "default/low"]
    assert [event for event in story if event != "MembersFreed"] == [
        "MembersPlaced", "MembersEvicted", "MembersPlaced",
    ]  # fmt: skip
