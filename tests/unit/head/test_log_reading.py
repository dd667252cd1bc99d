"""The head reads its own log, and asks nodes to read theirs. A node may not answer."""

from __future__ import annotations

from typing import Any

import pytest
from tests.world.clock import ManualClock
from tests.world.head import make_head

from phalanx.errors import StateQueryError
from phalanx.head.log_reading import MAX_READING
from phalanx.observe.log_lines import LogPiece
from phalanx.protocol.bundle_messages import BundleInventory
from phalanx.protocol.cluster_messages import ViewRow
from phalanx.protocol.membership_messages import Join
from phalanx.protocol.report_messages import NodeLogRead, ReadNodeLog
from phalanx.protocol.requests.logs import ReadProcessLog
from phalanx.protocol.requests.request import Asker, Role, encode_request, read_result

ID, PREFIX = "6e" * 28, b"nodea-"
PIECE = LogPiece(b"line\n", 7, 5, True)


class World:
    def __init__(self) -> None:
        self.clock = ManualClock(100.0)
        self.box: list[Any] = []
        self.answers: list[Any] = []
        self.control = make_head(
            lambda prefix, message: self.box.append(message),
            self.clock,
            read_log=lambda file, offset, limit: LogPiece(b"own\n", file, offset),
        )
        total = {"CPU": 1.0}
        row = ViewRow(ID, PREFIX, "10.0.0.1", 7, "ALIVE", total, dict(total), labels={})
        self.control.on_message(PREFIX, Join(row, "host", 0, {}, BundleInventory([], {})))

    def read(self, node: str, worker: str = "", file: int = 0, offset: int = 0) -> None:
        def send(result, error):
            self.answers.append((result, error))

        request = ReadProcessLog(node, worker, file, offset)
        asker: Asker[Any] = Asker(Role.VISITOR, b"", send)
        handlers = self.control.answering.handlers_of(request.kind)
        handlers.answer(request.kind, encode_request(request), asker)

    def asked(self) -> ReadNodeLog:
        return [one for one in self.box if isinstance(one, ReadNodeLog)][-1]

    def answer(self) -> LogPiece:
        ((result, error),) = self.answers
        return read_result(ReadProcessLog, result, error)


def test_a_node_reads_on_where_the_last_part_ended():
    world = World()
    world.read(ID, "ab12", 7, 1000)
    asked = world.asked()
    assert (asked.worker, asked.file, asked.offset) == ("ab12", 7, 1000)
    assert world.answers == []
    world.control.on_message(PREFIX, NodeLogRead(asked.number, PIECE))
    assert world.answer() == PIECE


def test_the_heads_own_log_is_read_at_once():
    world = World()
    world.read("", file=3, offset=-5)
    assert world.answer() == LogPiece(b"own\n", 3, 0)


def test_a_node_that_is_unknown_silent_or_gone():
    world = World()
    world.read("none")
    with pytest.raises(ValueError, match="does not exist"):
        world.answer()
    world.answers.clear()
    world.read(ID)
    world.clock.time_s += 10.0
    world.control.on_tick(world.clock.time_s)
    with pytest.raises(StateQueryError, match="does not answer"):
        world.answer()
    world.answers.clear()
    world.read(ID)
    world.control.on_lost(PREFIX)
    with pytest.raises(StateQueryError, match="does not answer"):
        world.answer()
    world.answers.clear()
    world.read(ID)
    with pytest.raises(StateQueryError, match="is not connected"):
        world.answer()


def test_so_many_parts_are_read_at_once():
    world = World()
    for _ in range(MAX_READING):
        world.read(ID)
    assert world.answers == []
    world.read(ID)
    with pytest.raises(StateQueryError, match="are being read"):
        world.answer()
