"""Jobs that leave their GPUs idle: the rule of their queue, its time windows, and what happens to
the jobs.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.world.cluster import one_node

from phalanx.api.new_manifests import job_manifest
from phalanx.errors import JobCommandError
from phalanx.head.jobs.idle_gpus import COVERED_S, LOOK_EVERY_S, Holding, IdleGpus
from phalanx.manifests.idle_rules import IdleRule, read_idle_rule
from phalanx.model.ids import JobId
from phalanx.model.jobs.spec import JobSpec, Process, TaskGroup, Template
from phalanx.observe.devices import DeviceSample
from phalanx.observe.events import EventQuery
from phalanx.protocol.bundle_messages import EndMember
from phalanx.protocol.report_messages import DevicesSeen
from phalanx.protocol.requests.jobs import ApplyManifests
from phalanx.protocol.requests.queues import CreateQueue, QueueFields, UpdateQueue

RULE = IdleRule(below=0.05, window_s=600.0)
JOB = Holding(JobId("default/j"), "q", (("n1", 0), ("n1", 1)))


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("none", None),
        (" none ", None),
        ("below 5% for 10m", RULE),
        ("5% for 10m", RULE),
        ("below 5 % for 600s", RULE),
        ("below 0.5% for 1h, end", IdleRule(below=0.005, window_s=3600.0, ends=True)),
        ("below 100% for 1m,end", IdleRule(below=1.0, window_s=60.0, ends=True)),
    ],
)
def test_rules_as_people_write_them(text: str, rule: IdleRule | None) -> None:
    assert read_idle_rule(text) == rule
    assert rule is None or read_idle_rule(str(rule)) == rule


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is like"),
        ("below 5%", "is like"),
        ("for 10m", "is like"),
        ("below five% for 10m", "is like"),
        ("below 5% for 10m, kill", "is like"),
        ("below 0% for 10m", "more than 0%"),
        ("below 101% for 10m", "at most 100%"),
        ("below 5% for 59s", "at least 60 s"),
        ("below 5% for ever", "ever"),
    ],
)
def test_what_is_no_rule_says_what_is(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_idle_rule(text)


@given(st.floats(0.001, 1.0), st.integers(60, 10**6), st.booleans())
def test_a_rule_reads_as_it_is_written(below: float, window_s: int, ends: bool) -> None:
    below = round(below, 4)
    rule = IdleRule(below=below, window_s=float(window_s), ends=ends)
    again = read_idle_rule(str(rule))
    assert again is not None
    assert again.below == pytest.approx(below)
    assert again.ends == ends


class World:
    """One job with two GPUs. The test sets how busy they are."""

    def __init__(self, rule: IdleRule | None = RULE) -> None:
        self.rule = rule
        self.use: list[float | None] = [0.0, 0.0]
        self.holding: list[Holding] = [JOB]
        self.noted: list[tuple[str, str]] = []
        self.ended: list[str] = []
        self.now = 0.0
        book: Any = self
        self.idle = IdleGpus(
            lambda: self.holding,
            lambda queue: self.rule,
            lambda node, number, within_s: self.use[number],
            book,
            lambda job, why: self.ended.append(f"{job}: {why}"),
        )

    def note(self, kind: str, *, job: str, queue: str, why: str) -> None:
        self.noted.append((kind, why))

    def go_on(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now = min(self.now + LOOK_EVERY_S, end)
            self.idle.tick(self.now)


def test_people_are_told_once_after_the_window() -> None:
    world = World()
    world.go_on(600.0)
    assert world.noted == []
    world.go_on(2 * LOOK_EVERY_S)
    assert world.noted == [("job-idle", "its 2 GPUs were less than 5% busy for 10m")]
    world.go_on(3000.0)
    assert len(world.noted) == 1
    assert world.ended == []


def test_work_in_between_begins_the_window_anew_and_people_are_told_again() -> None:
    world = World()
    world.go_on(590.0)
    world.use = [0.0, 0.05]
    world.go_on(LOOK_EVERY_S)
    world.use = [0.0, 0.04]
    world.go_on(600.0)
    assert world.noted == []
    world.go_on(10.0)
    assert len(world.noted) == 1
    world.use = [1.0, 0.0]
    world.go_on(10.0)
    world.use = [0.0, 0.0]
    world.go_on(620.0)
    assert len(world.noted) == 2


def test_what_nobody_has_read_counts_as_no_sample() -> None:
    world = World()
    world.go_on(590.0)
    world.use = [0.0, None]
    world.go_on(10.0)
    world.use = [0.0, 0.0]
    world.go_on(590.0)
    assert world.noted == []


def test_another_start_of_the_job_has_a_window_of_its_own() -> None:
    world = World()
    world.go_on(590.0)
    world.holding = [JOB._replace(devices=(("n1", 1),))]
    world.go_on(590.0)
    assert world.noted == []
    world.holding = []
    world.go_on(5.0)
    world.holding = [JOB]
    world.go_on(590.0)
    assert world.noted == []


def test_without_a_rule_nobody_looks() -> None:
    world = World(None)
    world.go_on(5000.0)
    assert world.noted == []


def test_a_rule_that_ends_jobs_says_why() -> None:
    world = World(IdleRule(below=0.05, window_s=600.0, ends=True))
    world.go_on(620.0)
    why = "its 2 GPUs were less than 5% busy for 10m"
    assert world.ended == [f"default/j: {why}, after which queue q ends jobs"]


def test_a_whole_head_warns_and_ends_by_the_rule_of_the_nearest_queue() -> None:
    world = one_node(4)
    with pytest.raises(JobCommandError, match="is like"):
        world.ask(CreateQueue("bad", QueueFields(idle_gpus="often")))
    world.ask(CreateQueue("lab", QueueFields(idle_gpus="below 5% for 10m, end")))
    world.ask(CreateQueue("q", QueueFields(parent="lab")))
    process = Process(command=("true",), requests=(("CPU", 1.0),))
    group = TaskGroup(name="w", template=Template(processes=(process,)))
    world.ask(ApplyManifests([job_manifest(JobSpec(name="j", queue="q", groups=(group,)))]))
    world.rounds(5)
    (gang,) = world.scheduler.registry.gangs.values()
    gang.members[0].devices = {"GPU": [0]}

    def noted() -> list[str]:
        events = world.head.event_log.page(EventQuery(kinds=["job-idle"])).events
        return [one.why for one in events]

    def idle_for(seconds: float) -> None:
        for _ in range(int(seconds / 10)):
            world.now += 10.0
            world.hear("n0", DevicesSeen([DeviceSample(number=0, busy=0.0)]))
            world.head.on_tick(world.now)

    idle_for(300.0)
    world.now += COVERED_S + 10
    world.head.on_tick(world.now)  # nothing was read for a while
    idle_for(590.0)
    assert noted() == []
    world.ask(UpdateQueue("q", QueueFields(idle_gpus="none")))
    idle_for(100.0)
    assert noted() == []
    world.ask(UpdateQueue("q", QueueFields(idle_gpus="below 5% for 10m")))
    idle_for(620.0)
    assert noted() == ["its GPU was less than 5% busy for 10m"]
    assert not [one for one in world.orders if isinstance(one, EndMember)]
    world.ask(UpdateQueue("q", QueueFields(idle_gpus="below 5% for 10m, end")))
    world.hear("n0", DevicesSeen([DeviceSample(number=0, busy=1.0)]))
    world.now += 10.0
    world.head.on_tick(world.now)
    idle_for(620.0)
    world.rounds(2)
    assert [one for one in world.orders if isinstance(one, EndMember)]
