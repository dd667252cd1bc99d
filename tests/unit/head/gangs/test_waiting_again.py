"""Jobs that wait when a head ends have the same positions when the next head begins."""

from __future__ import annotations

from tests.world.cluster import stored_world

from phalanx.model.jobs.spec import Process, TaskGroup, Template
from phalanx.protocol.requests.gangs import Explain
from phalanx.protocol.requests.jobs import CommandJob

from .test_what_people_see import settle

PROCESS = Process(command=("true",), requests=(("CPU", 1.0),))
MEMBERS = TaskGroup(name="a", replicas=2, template=Template(processes=(PROCESS,), restart="Never"))


def filled():
    """Return a world in which one job runs and four wait. The four were submitted at the same
    time.
    """
    world = stored_world()
    world.add("n1", CPU=2.0)
    world.job(MEMBERS, name="runs")
    go_on(world)
    for name in ("d", "a", "c", "b"):
        world.job(MEMBERS, name=name, min_available=2)
    go_on(world)
    return world


def go_on(world):
    for _ in range(3):
        world.write()
        settle(world)
    world.write()


def test_nothing_is_written_anew_of_jobs_that_wait():
    world = filled()
    gangs = world.scheduler.registry.gangs
    waiting = {gang.gang_id for gang in gangs.values() if gang.waits}
    world.start()
    written = {key for changes, _ in world.journal.records for _, key in changes}
    names = {f"default/{name}".encode() for name in "abcd"}
    assert len(waiting) == 4
    assert not written & (waiting | names)


def test_those_that_came_at_once_keep_their_order():
    world = filled()
    world.restart()
    places = [world.ask(Explain(name)).position for name in "abcd"]
    assert places == [1, 2, 3, 4]


def test_they_run_when_there_is_room_and_end_when_they_are_told_to():
    world = filled()
    world.restart()
    world.add("n2", CPU=4.0)
    go_on(world)
    jobs = world.scheduler.jobs
    states = [jobs.table.get(f"default/{name}").state for name in "abcd"]
    assert states == ["Running", "Running", "Pending", "Pending"]
    world.ask(CommandJob("c", "suspend"))
    go_on(world)
    assert jobs.table.get("default/c").state == "Aborted"
    world.restart()
    jobs = world.scheduler.jobs
    assert jobs.gang_of("default/c") is None
    assert jobs.gang_of("default/d").waits
