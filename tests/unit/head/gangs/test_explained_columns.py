"""`explain` gives the same answer from the columns that cycles keep as from a snapshot that was
built anew.
"""

from __future__ import annotations

import random
from typing import Any
from unittest import mock

import msgspec
import pytest

from phalanx.api.new_manifests import job_manifest
from phalanx.errors import PhalanxError
from phalanx.head.gangs.snapshot_source import SnapshotSource
from phalanx.model.jobs.spec import JobSpec, Process, TaskGroup, Template
from phalanx.model.jobs.timing import Timing
from phalanx.protocol.requests.jobs import ApplyManifests
from phalanx.protocol.requests.queues import CreateQueue, QueueFields
from phalanx.scheduler.forecast.planner import Planner
from phalanx_research.chaos.cache_check import differences

from .test_cache_machine import JobWorld


class DrawnWorld(JobWorld):
    """Nodes and queues, and random jobs that are submitted, run for a known or unknown time, end,
    and rest.
    """

    def __init__(self, seed):
        super().__init__()
        self.rng = random.Random(seed)
        for number in range(self.rng.randint(2, 5)):
            self.add(f"n{number}", CPU=self.rng.randint(1, 6))
        self.run()
        self.ask(CreateQueue("a", QueueFields(weight=2)))
        self.ask(CreateQueue("b", QueueFields(capability={"CPU": 3.0})))

    def step(self, number):
        rng = self.rng
        match rng.choice(["job", "job", "job", "gang", "turns", "ends", "others", "rests", "late"]):
            case "job":
                self._submit(number)
            case "gang":
                fields: dict[str, Any] = {
                    "queue": rng.choice(["default", "a", "b"]),
                    "priority": rng.choice([0, 9]),
                }
                members = rng.randint(1, 4)
                least = rng.randint(1, members)
                try:
                    self.gang(f"g{number}", members, least, rng.choice([0.5, 1.0, 2.0]), **fields)
                except PhalanxError:
                    return  # no node could ever hold it
            case "turns":
                for _ in range(3):
                    self.now += 0.1
                    self.cycle()
                    self.run()
            case "ends":
                if self.members():
                    member, node = rng.choice(self.members())
                    self.nodes[node].end(member, rng.choice([0, 1]))
                    self.run()
            case "others":
                node = rng.choice(sorted(self.nodes.items()))[1]
                report = node.report()
                free = report.available.get("CPU", 0.0)
                report.available = {"CPU": max(free - rng.randint(0, 3), 0.0)}
                self.head.on_message(node.prefix, report)
            case "rests":
                gangs = [gang for gang in self.scheduler.registry.gangs.values() if gang.waits]
                if gangs:
                    self.scheduler.reservations.rest(rng.choice(gangs))
            case "late":
                self.now += rng.choice([0.1, 7.0, 90.0])
                self.cycle()

    def _submit(self, number):
        rng = self.rng
        template = Template(
            processes=(
                Process(command=("true",), requests=(("CPU", rng.choice([0.5, 1.0, 2.0])),)),
            ),
            restart="Never",
        )
        members = rng.randint(1, 5)
        spec = JobSpec(
            name=f"j{number}",
            queue=rng.choice(["default", "a", "b"]),
            groups=(TaskGroup(name="w", replicas=members, template=template),),
            min_available=rng.randint(1, members),
            timing=Timing(limit_s=rng.choice([None, 60.0, 300.0, 600.0])),
        )
        try:
            self.ask(ApplyManifests([job_manifest(spec)]))
        except PhalanxError:
            return


@pytest.mark.parametrize("seed", range(8))
def test_columns_say_what_everything_read_anew_says(seed):
    world = DrawnWorld(seed)
    for number in range(24):
        world.step(number)
        if number % 4 == 3:
            _compare(world)


def _compare(world):
    batch = world.scheduler
    for gang in list(batch.registry.gangs.values()):
        told = batch.explanations.explain(gang.uid)
        with mock.patch.object(SnapshotSource, "columns", lambda *_: None):
            assert told == batch.explanations.explain(gang.uid)
    assert next(differences(batch), None) is None


def test_starts_that_take_long_to_work_out_take_a_tenth_of_the_time():
    world = JobWorld()
    world.add("n0", CPU=1)
    world.run()
    for name in ("runs", "first", "second"):
        world.ask(ApplyManifests([job_manifest(_job(name))]))
        for _ in range(3):
            world.now += 0.1
            world.cycle()
            world.run()
    asked = []

    def slow(planner, picture, podgroup):
        asked.append(podgroup)
        world.now += 2.0
        return expect(planner, picture, podgroup)

    def start(name):
        return world.scheduler.explanations.explain(name).expected_start

    expect = Planner.expect
    with mock.patch.object(Planner, "expect", slow):
        told = start("first")
        assert told.in_s > 0
        world.now += 1.0
        again = start("first")
        assert again.at_s == told.at_s
        assert again.in_s == pytest.approx(told.in_s - 3.0)  # two of them went into working it out
        assert start("second") is msgspec.UNSET
        assert asked == ["default/first"]
        world.scheduler.explanations.reasons()
        assert start("second").at_s > told.at_s  # as it was listed
        assert asked == ["default/first"]
        world.now += 18.0
        assert start("second").at_s > told.at_s
        assert asked == ["default/first", "default/second"]


def _job(name):
    template = Template(
        processes=(Process(command=("true",), requests=(("CPU", 1.0),)),), restart="Never"
    )
    group = TaskGroup(name="w", template=template)
    return JobSpec(name=name, groups=(group,), timing=Timing(limit_s=300.0))
