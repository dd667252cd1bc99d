"""Owners, node and workers together, without processes: whatever dies, every task ends as its
options say.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.owner.small_world import Wire, World, template

from phalanx.protocol.messages import Results


def names(world):
    return [(o.process_id, n) for o in world.owners for n in o.results]


def check_rest(world):
    """Check that nothing is held any more when no event can happen any more."""
    assert not world.machine.leases
    assert not world.machine.waiting.all()
    assert world.resources.available() == world.resources.total()
    for owner in world.owners:
        assert not owner.tasks.machine.pending
        assert not owner.tasks.machine.by_lease


@pytest.mark.parametrize("seed", range(30))
def test_without_deaths_every_task_runs_once(seed):
    world = World(seed)
    kinds = [template("quick", 3), template("slow", 3), template("once", 0)]
    submitted = []
    for _ in range(150):
        owner = world.random.choice(world.owners)
        submitted.append((owner.process_id, owner.submit(world.random.choice(kinds))))
        for _ in range(world.random.randrange(4)):
            world.step()
        if world.random.random() < 0.1:
            world.tick(0.05)
    world.settle()
    check_rest(world)
    assert sorted(names(world)) == sorted(submitted)
    assert world.runs == dict.fromkeys(submitted, 1)
    assert all(set(o.results.values()) <= {"done"} for o in world.owners)


@pytest.mark.parametrize("seed", range(60))
def test_with_deaths_retriable_tasks_end_well_and_others_run_at_most_once(seed):
    world = World(seed, cpus=1 + seed % 3)
    kinds = [template("quick", -1), template("slow", -1), template("once", 0)]
    retried: set[Any] = set()
    once: set[Any] = set()
    for _ in range(120):
        owner = world.random.choice(world.owners)
        kind = world.random.choice(kinds)
        key = (owner.process_id, owner.submit(kind))
        (retried if kind.max_retries else once).add(key)
        for _ in range(world.random.randrange(5)):
            world.step()
            living = [w for w in world.workers.values() if not w.is_dead]
            if living and world.random.random() < 0.06:
                world.kill(world.random.choice(living))
        if world.random.random() < 0.1:
            world.tick(world.random.choice([0.03, 0.4]))
    world.settle()
    check_rest(world)
    ends = {(o.process_id, n): end for o in world.owners for n, end in o.results.items()}
    assert set(ends) == retried | once
    assert {ends[key] for key in retried} <= {"done"}
    assert max(world.runs.get(key, 0) for key in once) <= 1


@pytest.mark.parametrize("seed", range(30))
def test_a_cancelled_task_ends_once_and_the_others_go_on(seed):
    world = World(seed)
    kinds = [template("quick", -1), template("slow", -1)]
    submitted = []
    begun_before: dict[Any, Any] = {}
    for _ in range(120):
        owner = world.random.choice(world.owners)
        submitted.append((owner, owner.submit(world.random.choice(kinds))))
        for _ in range(world.random.randrange(4)):
            world.step()
        if world.random.random() < 0.3:
            victim, number = world.random.choice(submitted)
            if number not in victim.results:
                key = (victim.process_id, number)
                begun_before.setdefault(key, world.runs.get(key, 0))
            victim.core.cancelling.cancel(number << 32, False, False)
        if world.random.random() < 0.1:
            world.tick(0.05)
    world.settle()
    check_rest(world)
    assert sorted(names(world)) == sorted((o.process_id, n) for o, n in submitted)
    for owner, number in submitted:
        if (owner.process_id, number) not in begun_before:
            assert owner.results[number] == "done"
        elif owner.results[number] == "failed":
            assert world.runs.get((owner.process_id, number), 0) == 0


@pytest.mark.parametrize("steps", range(1, 12))
def test_a_worker_that_dies_early_is_replaced(steps):
    """After each number of steps, the worker is killed. The next worker runs the task, however far
    the first one had come.
    """
    world = World(1, cpus=1, owners=1)
    (owner,) = world.owners
    number = owner.submit(template("quick", -1))
    for _ in range(steps):
        world.step()
    for worker in list(world.workers.values()):
        world.kill(worker)
    world.settle()
    check_rest(world)
    assert owner.results == {number: "done"}


@pytest.mark.parametrize("first", [-5, 1, 3, 1 << 40])
@pytest.mark.parametrize("lengths", [(0, 0, 0), (4, 1, 9), (2, 0, 2), (9, 9, 9)])
def test_results_that_nobody_expects_change_nothing(first, lengths):
    """Another process may send any numbers, and columns of any length."""
    world = World(1, owners=1)
    (owner,) = world.owners
    kind = template("quick", -1)
    numbers = [owner.submit(kind) for _ in range(20)]
    stranger: Any = Wire(bytes(16))
    values, started, ended = lengths
    message = Results(first, [b"x"] * values, [0.0] * started, [0.0] * ended)
    for _ in range(12):
        owner.receive(stranger, message, 0.0)
        world.step()
    world.settle()
    check_rest(world)
    assert owner.results == dict.fromkeys(numbers, "done")
    assert {ref._value for ref in owner.refs.values()} == {b""}
