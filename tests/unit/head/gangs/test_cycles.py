"""The control store's shell by itself, on a clock that the test moves."""

from __future__ import annotations

from typing import Any

import pytest
from tests.asking import ask
from tests.present import present
from tests.unit.head.making import make_control

from phalanx.head.gangs.binder import GangBinder
from phalanx.head.gangs.podgroups import PodGroups
from phalanx.model.ids import GangId, GroupId
from phalanx.protocol.bundle_messages import Committed, PrepareBundles, Prepared
from phalanx.protocol.cluster_messages import NodeReport, ViewRow
from phalanx.protocol.requests.cluster import GetStatus
from phalanx.protocol.requests.gangs import CreateGang, EndMembers, Explain
from phalanx.scheduler.plugins.priority import Priority

PREFIX = bytes(6)


class World:
    """A head with one node of four CPUs that answers nothing."""

    def __init__(self):
        self.now = 100.0
        self.sent: list[Any] = []
        self.internal_errors: list[Any] = []
        self.shell = make_control(
            lambda prefix, message: self.sent.append(message),
            lambda: self.now,
            is_alone=True,
            report_defect=self.internal_errors.append,
        )
        free = {"CPU": 4.0}
        row = ViewRow("n0", PREFIX, "", 0, "ALIVE", total=free, available=free, labels={})
        self.shell.join_alone(row)
        self.shell.on_message(PREFIX, NodeReport(available=free))

    def gang(self, number, members=2):
        group, needs = GangId(GroupId(bytes([number] * 18))), [{"CPU": 1.0}] * members
        ask(self.shell, CreateGang(group, "f", "default", needs, min_members=members))

    def round(self):
        """Time passes, and a cycle runs if one is due."""
        self.now += 5
        self.shell.on_round(self.now)
        asked, self.sent = self.sent, []
        return [message for message in asked if isinstance(message, PrepareBundles)]


def test_a_cycle_asks_the_node_for_whole_gangs_only():
    world = World()
    for number in range(3):
        world.gang(number, members=3)
    (asked,) = world.round()
    assert asked.group == bytes(18)
    assert sorted(asked.bundles) == [0, 1, 2]
    assert len(asked.ports) == 1
    assert world.round() == []


def test_actors_that_wait_for_a_gang_are_looked_at_once_it_has_its_places(monkeypatch):
    world = World()
    world.gang(1)
    (asked,) = world.round()
    looks = []
    monkeypatch.setattr(world.shell.actors, "place_waiting", lambda: looks.append(world.now))
    world.shell.on_tick(world.now)
    before = len(looks)
    place = (asked.group, asked.attempt)
    world.shell.on_message(PREFIX, Prepared(*place, True))
    world.shell.on_tick(world.now)
    assert len(looks) == before  # its bundles are not confirmed
    world.shell.on_message(PREFIX, Committed(*place, True))
    world.shell.on_tick(world.now)
    assert len(looks) == before + 1


def test_a_cycle_that_fails_is_reported_and_tried_again(monkeypatch):
    world = World()
    world.gang(1)
    run = Priority.open

    def fails(*args):
        monkeypatch.setattr(Priority, "open", run)
        raise RuntimeError("a defect")

    monkeypatch.setattr(Priority, "open", fails)
    assert world.round() == []
    assert str(world.internal_errors) == "[RuntimeError('a defect')]"
    assert len(world.round()) == 1


def test_no_cycle_runs_when_nothing_waits():
    world = World()
    world.gang(1)
    assert len(world.round()) == 1
    world.now += 1_000
    assert world.shell.on_round(world.now) == float("inf")


BAD = GangId(GroupId(bytes([2] * 18)))


def plant(monkeypatch, seam: str) -> None:
    """Have whatever concerns gang 2 fail at this seam."""

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
    world = World()
    for number in (1, 2, 3):
        world.gang(number, members=1)
    asked = world.round() + world.round()
    assert sorted(message.group[0] for message in asked) == [1, 3]
    assert [type(error) for error in world.internal_errors] == [ZeroDivisionError]
    assert present(ask(world.shell, GetStatus())).gangs["set aside"] == 1
    explained = present(ask(world.shell, Explain(BAD.hex())))
    assert explained.waits
    assert "set aside, because deciding about it failed: ZeroDivisionError: a defect" in str(
        explained
    )
    world.gang(4, members=1)  # who comes later is not kept waiting either
    assert [message.group[0] for message in world.round()] == [4]
    ask(world.shell, EndMembers(BAD, [0]))
    world.round()
    assert present(ask(world.shell, GetStatus())).gangs["set aside"] == 0
