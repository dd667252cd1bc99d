"""The head asks a node for its usage over time; the node may not answer."""

from __future__ import annotations

from typing import Any

import pytest
from tests.world.clock import ManualClock
from tests.world.head import make_head

from phalanx.errors import StateQueryError
from phalanx.head.actors.table import ActorRecord
from phalanx.head.node_use import MAX_READING
from phalanx.model.node_use import NodeUse, ProcessOfNode
from phalanx.protocol.bundle_messages import BundleInventory
from phalanx.protocol.cluster_messages import ViewRow
from phalanx.protocol.membership_messages import Join
from phalanx.protocol.report_messages import NodeUseRead, ReadNodeUse
from phalanx.protocol.requests.node_use import GetNodeUse
from phalanx.protocol.requests.request import Asker, Role, encode_request, read_result

ID, PREFIX = "6e" * 28, b"nodea-"
USE = NodeUse(processes=[ProcessOfNode(kind="driver", name="", pid=7, age_s=1.0)])


class World:
    def __init__(self) -> None:
        self.clock = ManualClock(100.0)
        self.box: list[Any] = []
        self.answers: list[Any] = []
        self.control = make_head(lambda prefix, message: self.box.append(message), self.clock)
        total = {"CPU": 1.0}
        row = ViewRow(ID, PREFIX, "10.0.0.1", 7, "ALIVE", total, dict(total), labels={})
        self.control.on_message(PREFIX, Join(row, "host", 0, {}, BundleInventory([], {})))

    def read(self, node: str = ID) -> None:
        request = GetNodeUse(node, 60.0)
        asker: Asker[Any] = Asker(Role.VISITOR, b"", lambda *answer: self.answers.append(answer))
        handlers = self.control.answering.handlers_of(request.kind)
        handlers.answer(request.kind, encode_request(request), asker)

    def asked(self) -> ReadNodeUse:
        return [one for one in self.box if isinstance(one, ReadNodeUse)][-1]

    def answer(self) -> NodeUse:
        ((result, error),) = self.answers
        self.answers.clear()
        return read_result(GetNodeUse, result, error)


def test_the_node_answers():
    world = World()
    world.read()
    assert world.asked().span_s == 60.0 and world.answers == []
    world.control.on_message(PREFIX, NodeUseRead(world.asked().number + 1, NodeUse()))
    assert world.answers == []  # the answer to another question
    world.control.on_message(PREFIX, NodeUseRead(world.asked().number, USE))
    assert world.answer() == USE


def test_a_node_that_is_unknown_silent_or_gone():
    world = World()
    world.read("none")
    with pytest.raises(ValueError, match="does not exist"):
        world.answer()
    world.read()
    world.clock.time_s += 10.0
    world.control.on_tick(world.clock.time_s)
    with pytest.raises(StateQueryError, match="does not answer"):
        world.answer()
    world.read()
    world.control.on_lost(PREFIX)
    with pytest.raises(StateQueryError, match="does not answer"):
        world.answer()
    world.read()
    with pytest.raises(StateQueryError, match="is not connected"):
        world.answer()


def test_so_many_nodes_are_asked_at_once():
    world = World()
    for _ in range(MAX_READING):
        world.read()
    assert world.answers == []
    world.read()
    with pytest.raises(StateQueryError, match="are being asked"):
        world.answer()


def test_the_head_names_the_classes_of_a_nodes_actors():
    world = World()
    actor = b"\xab" * 16
    record = ActorRecord(
        actor=actor, owner=b"", job=b"\0\0\0\1", creation=b"", class_name="Trainer", name="best",
        place={}, hold={},
    )  # fmt: skip
    world.control.actor_table.register(record)
    world.read()
    use = NodeUse(
        processes=[
            ProcessOfNode(kind="worker", name="actor", pid=8, age_s=1.0, actor=actor.hex()),
            ProcessOfNode(kind="worker", name="actor", pid=9, age_s=1.0, actor="cd" * 16),
        ]
    )
    world.control.on_message(PREFIX, NodeUseRead(world.asked().number, use))
    assert [one.name for one in world.answer().processes] == ["Trainer best", "actor"]
