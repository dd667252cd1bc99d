"""Numbers of a cluster over time, as its head recorded them."""

from __future__ import annotations

from typing import Any

from msgspec import structs
from tests.world.cluster import World

from phalanx.head.machine_use import FRESH_S
from phalanx.head.time_series import MAX_SERIES, TimeSeries
from phalanx.model.machines import MachineShare
from phalanx.observe.devices import DeviceSample
from phalanx.protocol.report_messages import DevicesSeen, MachineSeen
from phalanx.protocol.requests.node_use import ListNodesInUse
from phalanx.protocol.requests.series import GetSeries

from .test_cycle_log import put

ASKER: Any = None
"""No asker, because the answer is returned immediately."""


def means(world: World, after: float = 0.0) -> dict[tuple[str, str], list[float]]:
    """Return the means in the finest steps, by (what was counted, of what)."""
    told = world.ask(GetSeries(after))
    return {(one.what, one.of): [mean for _, mean in one.points[0]] for one in told.numbers}


def test_the_head_counts_what_nodes_give_what_jobs_do_and_what_queues_hold():
    world = World()
    world.add("n1", CPU=4.0)
    put(world, "runs", cpus=3.0)
    put(world, "waits", cpus=2.0)
    for _ in range(12):
        world.now += 10.0
        world.head.on_tick(world.now)
    found = means(world)
    assert found["total", "CPU"][-1] == 4.0
    assert (found["jobs", "running"][-1], found["jobs", "waiting"][-1]) == (1.0, 1.0)
    assert found["queue default", "CPU"][-1] == 3.0
    assert len(found["total", "CPU"]) > 10
    recent = means(world, world.ask(GetSeries()).at - 1.0)
    assert all(len(points) <= 2 for points in recent.values()), "only what is new"


def test_the_head_counts_how_busy_the_gpus_are_of_which_that_is_known():
    world = World()
    world.add("n1", CPU=4.0, GPU=3.0)
    put(world, "runs")
    samples = [DeviceSample(number=n, busy=busy) for n, busy in enumerate((0.75, 0.0, None))]
    world.hear("n1", DevicesSeen(samples, {}))
    world.now += 10.0
    world.head.on_tick(world.now)
    assert means(world)["used", "GPU"][-1] == 0.75
    assert world.ask(ListNodesInUse()) == {"n1": {"GPU": 0.75}}
    world.now += FRESH_S + 1.0
    assert world.ask(ListNodesInUse()) == {}, "the sample is too old"


def test_a_machine_counts_once_however_many_nodes_it_has():
    world = World()
    for name, machine in (("n1", "a"), ("n2", "a"), ("n3", "b")):
        world.add(name, CPU=4.0)
        (record,) = (one for one in world.head.nodes.living() if one.node_id == name)
        record.machine = MachineShare(machine, {})
    put(world, "runs")
    for name, cpus in (("n1", 1.5), ("n2", 1.25), ("n3", 0.5)):
        world.hear(name, MachineSeen(cpus, 2.0**30))
    world.now += 10.0
    world.head.on_tick(world.now)
    found = means(world)
    assert found["used", "CPU"][-1] == 1.75
    assert world.ask(ListNodesInUse())["n2"] == {"CPU": 1.25, "memory": 2.0**30}
    world.now += 100.0
    assert world.head.machines.used() == {}, "no machine was read lately"


def test_a_number_too_many_takes_the_place_of_one_of_a_queue_that_is_gone_or_none():
    world = World()
    world.add("n1", CPU=4.0)
    put(world, "runs")
    scheduler = world.scheduler
    (queue,) = (row for row in scheduler.gang_requests.queue_rows() if row.name == "default")
    queues = [structs.replace(queue, name=f"q{n}") for n in range(MAX_SERIES)]
    numbers = TimeSeries(world.head.clock, world.head.nodes, list, lambda: queues, dict)
    numbers.tick(world.now)

    def known() -> set[str]:
        return {one.what for one in numbers.answer(ASKER, GetSeries()).numbers}

    full = known()
    assert len(full) < MAX_SERIES and "queue q1" in full and f"queue q{MAX_SERIES - 1}" not in full
    queues[0] = structs.replace(queue, name="late")
    world.now += 1_000_000.0
    numbers.tick(world.now)
    assert "queue late" in known() and "queue q0" not in known()
