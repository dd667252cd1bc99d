"""Cycles of a head: the orders that they send to nodes, and errors in them."""

from __future__ import annotations

import pytest
from tests.world.cluster import World, gang_id, group_name, one_node

from phalanx.head.gangs.binder import GangBinder
from phalanx.head.gangs.podgroups import PodGroups
from phalanx.protocol.bundle_messages import Committed, PrepareBundles, Prepared
from phalanx.protocol.requests.cluster import GetStatus
from phalanx.protocol.requests.gangs import EndMembers, Explain
from phalanx.scheduler.plugins.priority import Priority


def cycle_of(world: World) -> list[PrepareBundles]:
    """Run a cycle if one is due; return its orders to prepare bundles, which are not delivered."""
    world.cycles()
    asked = [m for _, m in world.told if isinstance(m, PrepareBundles)]
    world.forget()
    return asked


def test_a_cycle_asks_the_node_for_whole_gangs_only():
    world = one_node(4)
    for number in range(3):
        world.gang(str(number), members=3)
    (asked,) = cycle_of(world)
    assert asked.group == gang_id("0")
    assert sorted(asked.bundles) == [0, 1, 2]
    assert len(asked.ports) == 1
    assert cycle_of(world) == []


def test_actors_that_wait_for_a_gang_are_looked_at_once_it_has_its_places(monkeypatch):
    world = one_node(4)
    world.gang(members=2)
    (asked,) = cycle_of(world)
    looks = []
    monkeypatch.setattr(world.head.actors, "place_waiting", lambda: looks.append(world.now))
    world.head.on_tick(world.now)
    before = len(looks)
    place = (asked.group, asked.attempt)
    world.hear("n0", Prepared(*place, True))
    world.head.on_tick(world.now)
    assert len(looks) == before  # its bundles are not confirmed
    world.hear("n0", Committed(*place, True))
    world.head.on_tick(world.now)
    assert len(looks) == before + 1


def test_a_cycle_that_fails_is_reported_and_tried_again(monkeypatch):
    world = one_node(4, keeps_defects=True)
    world.gang(members=2)
    run = Priority.open

    def fails(*args):
        monkeypatch.setattr(Priority, "open", run)
        raise RuntimeError("a defect")

    monkeypatch.setattr(Priority, "open", fails)
    assert cycle_of(world) == []
    assert str(world.internal_errors) == "[RuntimeError('a defect')]"
    assert len(cycle_of(world)) == 1


def test_no_cycle_runs_when_nothing_waits():
    world = one_node(4)
    world.gang(members=2)
    assert len(cycle_of(world)) == 1
    world.now += 1_000
    assert world.head.on_round(world.now) == float("inf")


BAD = gang_id("2")


def plant(monkeypatch, seam: str) -> None:
    """Make the code of one part of the head (`seam`) fail for gang 2."""

    def for_bad(of, name, gang_of):
        real = getattr(of, name)

        def fails(self, first, *rest, **named):
            if gang_of(first) == BAD:
                raise ZeroDivisionError("a defect")
            return real(self, first, *rest, **named)

        monkeypatch.setattr(of, name, fails)

    if seam == "plugin":
        real = Priority.open

        def opens(self, session):
            if any(job.uid.endswith(BAD[:6].hex()) for job in session.cluster.jobs):
                raise ZeroDivisionError("a defect")
            real(self, session)

        monkeypatch.setattr(Priority, "open", opens)
    elif seam == "patching":
        for_bad(PodGroups, "task", lambda gang: gang.gang_id)
    elif seam == "reading":
        for_bad(PodGroups, "podgroup", lambda gang: gang.gang_id)
    else:
        for_bad(GangBinder, "place", lambda gang: gang.gang_id)


@pytest.mark.parametrize("seam", ["plugin", "patching", "reading", "applying"])
def test_one_bad_gang_is_set_aside_and_the_others_start(monkeypatch, seam):
    plant(monkeypatch, seam)
    world = one_node(4, keeps_defects=True)
    for number in (1, 2, 3):
        world.gang(str(number))
    asked = cycle_of(world) + cycle_of(world)
    assert sorted(group_name(message.group) for message in asked) == ["1", "3"]
    assert [type(error) for error in world.internal_errors] == [ZeroDivisionError]
    assert world.ask(GetStatus()).gangs["set aside"] == 1
    explained = world.ask(Explain(BAD.hex()))
    assert explained.waits
    assert "set aside, because deciding about it failed: ZeroDivisionError: a defect" in str(
        explained
    )
    world.gang("4")  # who comes later is not kept waiting either
    assert [group_name(message.group) for message in cycle_of(world)] == ["4"]
    world.ask(EndMembers(BAD, [0]))
    cycle_of(world)
    assert world.ask(GetStatus()).gangs["set aside"] == 0
