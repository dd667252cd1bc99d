"""From which node each receiver copies a large object, and what happens if that node does not
answer.
"""

from __future__ import annotations

import pytest

from phalanx.node.broadcasts import (
    ANSWER_S,
    ASK_AGAIN_S,
    AT_ONCE,
    LARGE_BYTES,
    Broadcasts,
    SourceQuestions,
)
from phalanx.protocol.copy_messages import SourceFor, SourceFree, WantSource

WRITER = b"writer"
NAME = WRITER.hex() + "0" * 20 + "-1"
TAKERS = [b"node%02d" % n for n in range(20)]


class Writer:
    """The side of a broadcast that wrote the object, and its answers."""

    def __init__(self):
        self.now = 0.0
        self.said = []
        self.holders: set[bytes] = set()
        self.broadcasts = Broadcasts(
            WRITER, lambda: self.now, self.send, lambda name: self.holders if name == NAME else ()
        )

    def send(self, node, message):
        assert isinstance(message, SourceFor)
        assert message.name == NAME
        self.said.append((node, message.source))

    def ask(self, *takers):
        for taker in takers:
            self.broadcasts.asked(taker, WantSource(NAME, LARGE_BYTES))

    def has(self, *takers):
        self.holders |= set(takers)
        for taker in takers:
            self.broadcasts.on_taker_done(NAME, taker)

    def news(self):
        """Return the answers since the last call, as (receiver, the node from which it copies)."""
        said, self.said = self.said, []
        return said


def test_who_has_it_gives_it_on_to_two_at_a_time():
    writer = Writer()
    writer.ask(*TAKERS)
    rounds, served = [], 0
    while served < len(TAKERS):
        news = writer.news()
        assert all(source in {WRITER, *writer.holders} - {taker} for taker, source in news)
        rounds.append(len(news))
        served += len(news)
        writer.has(*(taker for taker, _ in news))
    assert rounds == [AT_ONCE, 3 * AT_ONCE, 12]
    assert writer.broadcasts._under_way == {}


def test_who_does_not_get_it_makes_room_and_is_no_source():
    writer = Writer()
    writer.ask(*TAKERS[:3])
    assert writer.news() == [(TAKERS[0], WRITER), (TAKERS[1], WRITER)]
    writer.broadcasts.on_taker_done(NAME, TAKERS[0])
    assert writer.news() == [(TAKERS[2], WRITER)]


def test_who_asks_again_hears_the_same_or_that_it_has_to_wait():
    writer = Writer()
    writer.ask(*TAKERS[:3])
    writer.news()
    writer.ask(TAKERS[0], TAKERS[2])
    assert writer.news() == [(TAKERS[0], WRITER), (TAKERS[2], b"")]


def test_a_dead_node_takes_nothing_and_gives_nothing():
    writer = Writer()
    writer.ask(*TAKERS[:2])
    writer.has(*TAKERS[:2])
    writer.ask(*TAKERS[2:8])
    assert sorted(source for _, source in writer.news()[2:]) == sorted(
        2 * [WRITER, TAKERS[0], TAKERS[1]]
    )
    writer.ask(*TAKERS[8:10])
    writer.holders.discard(TAKERS[0])
    writer.broadcasts.node_gone(TAKERS[0])  # who took it from there counts as the writer's now
    writer.broadcasts.node_gone(TAKERS[8])
    assert writer.news() == []
    writer.has(TAKERS[2])
    ((taker, source),) = writer.news()
    assert (taker, source != TAKERS[0]) == (TAKERS[9], True)


def test_who_takes_far_too_long_keeps_nobody_waiting():
    writer = Writer()
    writer.ask(*TAKERS[:3])
    writer.news()
    writer.broadcasts.tick(1.0)
    assert writer.news() == []
    writer.now = 100.0
    writer.broadcasts.tick(writer.now)
    assert writer.news() == [(TAKERS[2], WRITER)]


def test_of_an_object_that_is_gone_all_hear_at_once():
    writer = Writer()
    writer.ask(*TAKERS[:4])
    writer.news()
    writer.broadcasts.forget(NAME)
    assert writer.news() == [(TAKERS[2], WRITER), (TAKERS[3], WRITER)]


class Taker:
    """The side of a broadcast that wants a copy."""

    def __init__(self, dead=()):
        self.now = 0.0
        self.said: list[tuple[bytes, object]] = []
        self.begun = []
        self.questions = SourceQuestions(
            lambda: self.now,
            lambda node, message: self.said.append((node, message)),
            dead.__contains__,
        )

    def ask(self, size=LARGE_BYTES):
        self.questions.ask(NAME, size, self.begun.append)

    def wait(self, seconds):
        self.now += seconds
        self.questions.tick(self.now)


def test_a_small_object_and_a_dead_writers_are_taken_from_the_writer_at_once():
    small, orphan = Taker(), Taker(dead=[WRITER])
    small.ask(LARGE_BYTES - 1)
    orphan.ask()
    assert small.begun == orphan.begun == [[WRITER]]
    assert small.said == orphan.said == []


def test_a_large_one_is_taken_from_where_the_writer_says_or_else_from_the_writer():
    taker = Taker()
    taker.ask()
    assert taker.said == [(WRITER, WantSource(NAME, LARGE_BYTES))]
    assert taker.begun == []
    taker.questions.answered(SourceFor(NAME, TAKERS[1]))
    taker.questions.answered(SourceFor(NAME, TAKERS[2]))
    assert taker.begun == [[TAKERS[1], WRITER]]


@pytest.mark.parametrize("is_here", [True, False])
def test_a_failed_transfer_is_told_and_another_is_heard_of_anyway(is_here):
    taker = Taker()
    taker.ask()
    taker.questions.answered(SourceFor(NAME, TAKERS[1]))
    taker.said.clear()
    assert taker.questions.on_transfer_end(NAME, is_here) == TAKERS[1]
    assert taker.said == ([] if is_here else [(WRITER, SourceFree(NAME))])
    assert taker.questions.on_transfer_end(NAME, False) == WRITER


def test_a_question_is_asked_again_and_for_no_answer_it_does_without():
    taker = Taker()
    taker.ask()
    taker.wait(ASK_AGAIN_S)
    assert len(taker.said) == 2
    taker.wait(ANSWER_S - ASK_AGAIN_S)
    assert taker.begun == [[WRITER]]


def test_who_is_told_to_wait_waits():
    taker = Taker()
    taker.ask()
    for _ in range(10):
        taker.questions.answered(SourceFor(NAME, b""))
        taker.wait(ASK_AGAIN_S)
    assert taker.begun == []
    taker.questions.answered(SourceFor(NAME, WRITER))
    assert taker.begun == [[WRITER]]


def test_when_the_writer_dies_the_transfer_says_why():
    taker = Taker()
    taker.ask()
    taker.questions.node_gone(TAKERS[0])
    assert taker.begun == []
    taker.questions.node_gone(WRITER)
    assert taker.begun == [[WRITER]]
