"""Jobs that the head moves so that others can start: their nodes before and after, and what people
see.
"""

from __future__ import annotations

import pytest
from tests.world.cluster import World
from tests.world.node import WorkingNode

from phalanx.errors import JobCommandError
from phalanx.head.gangs.member_states import HELD
from phalanx.model.jobs.spec import Process, TaskGroup, Template
from phalanx.model.jobs.timing import NODE, Requeue, Timing
from phalanx.protocol.requests.gangs import Explain, GetRules, SetRules
from phalanx.protocol.requests.jobs import CommandJob
from phalanx.scheduler.cycle.move_terms import MOVABLE


class WorkingWorld(World):
    """Nodes that run members."""

    node_class = WorkingNode


def job(world, name, cpus, *, annotations=(), timing=None):
    process = Process(command=("true",), requests=(("CPU", float(cpus)),))
    group = TaskGroup(name="a", replicas=1, template=Template(processes=(process,)))
    world.job(group, name=name, annotations=annotations, timing=timing or Timing())


def scattered(timing=None):
    """Return two nodes of four CPUs, each with a movable job of one CPU, and a waiting job that
    needs four.
    """
    world = WorkingWorld()
    world.add("n1", CPU=4.0)
    world.add("n2", CPU=4.0)
    movable = ((MOVABLE, "10m"),)
    for name, cpus in (("s", 1), ("filler", 3), ("u", 1)):
        job(world, name, cpus, annotations=movable, timing=timing)
        world.rounds(3)
    world.ask(CommandJob("default/filler", "cancel"))
    world.rounds(5)
    job(world, "big", 4)
    world.rounds(5)
    world.pass_time(700.0)
    return world


def places(world):
    """Return the node of each job that holds a place."""
    gangs = world.scheduler.registry.gangs.values()
    return {gang.name: gang.members[0].node for gang in gangs if gang.members[0].state == HELD}


def consolidate(world):
    text = world.ask(GetRules()).text
    text = text.replace('reclaim, backfill"', 'reclaim, backfill, consolidate"')
    world.ask(SetRules(text, "moving.yaml"))


def test_nothing_moves_unless_the_rules_say_so():
    world = scattered()
    assert places(world) == {"s": "n1", "u": "n2"}
    said = str(world.ask(Explain("big")))
    assert "of work lost) would start it at once; the action consolidate" in said


def test_a_job_moves_so_that_another_starts():
    world = scattered()
    consolidate(world)
    world.rounds(5)
    found = places(world)
    assert sorted(found) == ["big", "s", "u"]
    assert found["s"] == found["u"] != found["big"]
    gangs = world.scheduler.registry.gangs.values()
    assert sorted(gang.preempted for gang in gangs) == [0, 0, 1]
    world.check_settled()


def test_the_place_to_which_a_job_moves_is_kept_for_it():
    world = scattered()
    consolidate(world)
    world.now += 1.0
    world.cycle()  # the job that moves is told to end
    job(world, "late", 3)
    world.cycles(2)
    assert "late" not in places(world)
    world.rounds(5)
    assert sorted(places(world)) == ["big", "s", "u"]


def test_a_job_that_ends_when_it_is_preempted_does_not_move():
    world = scattered(Timing(requeue=Requeue(reasons=(NODE,))))
    consolidate(world)
    world.rounds(5)
    assert places(world) == {"s": "n1", "u": "n2"}


def test_an_unknown_time_between_saves_is_refused():
    world = World()
    with pytest.raises(JobCommandError, match=r"phalanx/movable: it must be 'true' or the time"):
        job(world, "s", 1, annotations=((MOVABLE, "now and then"),))
    assert world.scheduler.registry.gangs == {}
