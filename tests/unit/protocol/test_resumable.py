"""Streams that survive their connections: whatever is cut, each message arrives exactly one time,
in order.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.errors import ProtocolError
from phalanx.protocol import resumable
from phalanx.protocol.resumable import Packet, ResumableStream


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumable, "PART_BYTES", 4)


class Side:
    """One end of a stream, with the packets on their way to it and the messages that it has
    received.
    """

    def __init__(self) -> None:
        self.stream = ResumableStream()
        self.coming: list[Packet] = []
        self.got: list[bytes] = []

    def send(self, other: Side) -> None:
        packet = self.stream.due()
        if packet is not None:
            other.coming.append(Packet(packet.number, packet.have, packet.part, packet.is_last))

    def read(self) -> None:
        if self.coming and (message := self.stream.take(self.coming.pop(0))) is not None:
            self.got.append(message)


def reconnect(one: Side, other: Side) -> None:
    """Lose the packets on their way, and resume the stream."""
    one.coming, other.coming = [], []
    one.stream.resume(other.stream.received)
    other.stream.resume(one.stream.received)


STEPS = st.lists(st.sampled_from(["put", "put back", "send", "back", "read", "got", "cut"]))


@given(STEPS)
def test_each_message_arrives_once_and_in_order(steps: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resumable, "PART_BYTES", 4)
        patch.setattr(resumable, "REPORT_EVERY", 2)
        one, other = Side(), Side()
        put: list[bytes] = []
        back: list[bytes] = []
        for step in steps:
            if step == "put":
                put.append(bytes([len(put) % 251]) * (len(put) % 11))
                one.stream.put(put[-1])
            elif step == "put back":
                back.append(b"%d" % len(back))
                other.stream.put(back[-1])
            elif step == "cut":
                reconnect(one, other)
            else:
                {
                    "send": lambda: one.send(other),
                    "back": lambda: other.send(one),
                    "read": other.read,
                    "got": one.read,
                }[step]()
            assert other.got == put[: len(other.got)] and one.got == back[: len(one.got)]
        reconnect(one, other)
        for _ in range(10 * len(steps) + 4):
            one.send(other)
            other.send(one)
            one.read()
            other.read()
        assert (other.got, one.got) == (put, back)
        one.stream.take(other.stream.report())
        other.stream.take(one.stream.report())
        assert one.stream.is_over and other.stream.is_over
        assert one.stream.kept_bytes == other.stream.kept_bytes == 0


def test_a_large_message_goes_in_parts(small_parts: None) -> None:
    stream = ResumableStream()
    stream.put(b"abcdefghi")
    stream.put(b"")
    parts = []
    while (packet := stream.due()) is not None:
        parts.append((packet.number, packet.part, packet.is_last))
    assert parts == [(1, b"abcd", False), (2, b"efgh", False), (3, b"i", True), (4, b"", True)]
    assert stream.kept_bytes == 9
    stream.take(Packet(0, 2))
    assert stream.kept_bytes == 1 and not stream.is_over


def test_arrivals_are_reported_even_when_nothing_is_sent() -> None:
    stream = ResumableStream()
    for number in range(1, resumable.REPORT_EVERY):
        stream.take(Packet(number, 0, b"x"))
        assert stream.due() is None
    stream.take(Packet(resumable.REPORT_EVERY, 0, b"x"))
    assert stream.due() == Packet(0, resumable.REPORT_EVERY) and stream.due() is None


@pytest.mark.parametrize(
    "packet", [Packet(2, 0, b"x"), Packet(0, 2), Packet(1, 5, b"x"), Packet(0, -1)]
)
def test_what_cannot_be_true_is_refused(packet: Packet) -> None:
    stream = ResumableStream()
    stream.put(b"only one")
    stream.due()
    with pytest.raises(ProtocolError):
        stream.take(packet)


def test_what_a_side_had_it_still_has() -> None:
    stream = ResumableStream()
    stream.put(b"one")
    stream.due()
    stream.take(Packet(0, 1))
    with pytest.raises(ProtocolError, match="part 0"):
        stream.resume(0)


def test_a_message_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumable, "MESSAGE_BYTES", 8)
    stream = ResumableStream()
    with pytest.raises(ProtocolError, match="limit"):
        stream.put(b"123456789")
    stream.take(Packet(1, 0, b"12345", is_last=False))
    with pytest.raises(ProtocolError, match="more than 8"):
        stream.take(Packet(2, 0, b"6789"))
