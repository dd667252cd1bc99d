"""The log of cycles, as people read it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.world.clock import ManualClock
from tests.world.cluster import World

from phalanx.cli.cycles import cycle_text, cycles_text
from phalanx.errors import JobNotFoundError
from phalanx.head.gangs.cycle_log import KEEP_CYCLES, NAMED, CycleLog
from phalanx.model.jobs.spec import Process, TaskGroup, Template
from phalanx.observe.cycles import difference, verdicts
from phalanx.protocol.requests.gangs import ListCycles
from phalanx.protocol.requests.news import ListWaiting
from phalanx.scheduler.cycle.plan import Plan, Rejection

from .test_what_people_see import settle


def put(world, name, members=1, cpus=1.0, **fields):
    process = Process(command=("true",), requests=(("CPU", cpus),))
    group = TaskGroup(name="w", replicas=members, template=Template(processes=(process,)))
    world.job(group, name=name, min_available=members, **fields)
    settle(world)


def test_a_cycle_tells_who_got_what_who_gave_way_and_who_was_left():
    world = World()
    world.add("n1", CPU=2.0)
    put(world, "low", members=2)
    put(world, "wide", members=9, priority=5)
    put(world, "high", cpus=2.0, priority=9)
    settle(world)
    listed = world.ask(ListCycles())
    assert [one.number for one in listed] == sorted({one.number for one in listed})
    assert all(not one.placed and not one.left for one in listed), "names are for one alone"
    whole = [world.ask(ListCycles(one.number))[-1] for one in listed]
    assert [one.gang for one in whole[0].placed] == ["default/low"]
    assert (whole[0].placed[0].members, whole[0].placed[0].nodes) == (2, ["n1"])
    taking = next(one for one in whole if one.evicted)
    (gone,) = taking.evicted
    assert (gone.gang, gone.members, gone.action) == ("default/low", 2, "preempt")
    assert gone.claimant == "default/high" and taking.promised == ["default/high"]
    assert "preempt" in taking.actions and taking.may_evict
    assert {one.verdict for one in verdicts(taking)} >= {"evicted", "promised", "left"}
    text = cycle_text(world.ask(ListCycles(taking.number)), {})
    assert "evicted by preempt" in text and "for high" in text
    assert "allocate" in cycles_text(listed)


def test_a_cycle_tells_which_node_won_by_which_scores_and_which_plugin_refuses():
    world = World()
    for name, cpus in (("n1", 8.0), ("n2", 4.0), ("n3", 1.0)):
        world.add(name, CPU=cpus)
    put(world, "two", members=2, cpus=2.0)
    put(world, "alone", cpus=7.0)
    put(world, "later", cpus=8.0)
    one, other = (
        said.chosen
        for cycle in world.ask(ListCycles())
        for said in verdicts(world.ask(ListCycles(cycle.number))[-1])
        if said.verdict == "placed"
    )
    assert one is not None and other is not None
    assert (one.first, one.among) == ("n2", 2), "the fuller one of those that have room"
    assert one.scores["binpack"] > 0 and "network-topology-aware" in one.scores
    assert (other.first, other.among) == ("n1", 1)
    waits = {said.job: said for said in world.ask(ListWaiting())}
    text = cycle_text(world.ask(ListCycles(len(world.ask(ListCycles())))), waits)
    assert "now: 3 nodes lack CPU (needs 8, most free 1)" in text, text


def test_what_a_plugin_said_of_a_gang_is_told_of_the_cycle():
    log = CycleLog(ManualClock(0.0), {})
    no = Rejection(reason="queue-closed", detail={"queue": "lab"}, plugin="capacity")
    plan = Plan(binds={}, evictions=(), pipelined={}, phases={}, rejections={"default/j": (no,)})
    waiting: Any = [SimpleNamespace(uid="default/j"), SimpleNamespace(uid="default/k")]
    for _ in range(2):
        log.decided(plan, waiting, took_s=0.0, read_s=0.0)
    assert not log.rows(None)[0].refused
    cycle = log.rows(1)[-1]
    (refused,) = cycle.refused
    assert (refused.gang, refused.plugin, refused.code) == ("default/j", "capacity", "queue-closed")
    assert "capacity: queue lab is not open" in cycle_text([cycle], {})


def test_cycles_that_come_to_nothing_are_one_and_few_are_kept():
    world = World()
    world.add("n1", CPU=1.0)
    put(world, "runs")
    put(world, "waits")
    before = len(world.ask(ListCycles()))
    for _ in range(30):
        world.scheduler.cycles.request_cycle()
        world.cycles()
    after = world.ask(ListCycles())
    assert len(after) == before and after[-1].repeats >= 30
    found = world.ask(ListCycles(after[-1].number))
    assert found[-1].left == ["default/waits"]
    news = difference(found)
    assert news is not None and news.came == ["default/waits"]
    for number in (0, -1, 10**9):
        with pytest.raises(JobNotFoundError, match="known cycles: 1 to "):
            world.ask(ListCycles(number))


def test_of_many_gangs_some_are_named_and_of_many_cycles_the_last_are_kept():
    log = CycleLog(ManualClock(0.0), {})
    plan = Plan(binds={}, evictions=(), pipelined={"gone": "n"}, phases={}, rejections={})
    for count in range(1, KEEP_CYCLES + NAMED):
        waiting: Any = [SimpleNamespace(uid=f"default/j{n}") for n in range(count)]
        log.decided(plan, waiting, took_s=0.0, read_s=0.0)
    listed = log.rows(None)
    assert (len(listed), listed[-1].number) == (KEEP_CYCLES, KEEP_CYCLES + NAMED - 1)
    whole = log.rows(listed[-1].number)[-1]
    assert len(whole.left) == NAMED < whole.counts["left"]
