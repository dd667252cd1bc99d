"""The stream between a client and its driver over real sockets, which break meanwhile."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Iterator

import pytest
from tests.polling import eventually

from phalanx.errors import ProtocolError
from phalanx.protocol import resumable
from phalanx.protocol.client_messages import PACKET_FRAME_BYTES, Warned, decode_for_client
from phalanx.protocol.frames import encode_frame
from phalanx.protocol.resumable import Packet
from phalanx.runtime.client import channel
from phalanx.runtime.client.channel import Channel

LIMIT_S = 60.0


class End:
    """A channel and what it has received. A thread serves the channel over one socket after
    another.
    """

    def __init__(self) -> None:
        self.got: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.channel = Channel(self._take)
        self.faults: list[ProtocolError] = []
        self._thread: threading.Thread | None = None

    def _take(self, body: bytes) -> None:
        message = decode_for_client(body)
        assert isinstance(message, Warned)
        self.got.put(message.text)

    def serve(self, sock: socket.socket) -> None:
        self._thread = threading.Thread(target=self._serve, args=(sock,))
        self._thread.start()

    def _serve(self, sock: socket.socket) -> None:
        try:
            self.channel.serve(sock)
        except ProtocolError as error:
            self.faults.append(error)

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join(LIMIT_S)

    def next(self) -> str:
        return self.got.get(timeout=LIMIT_S)


@pytest.fixture
def ends() -> Iterator[tuple[End, End]]:
    made = End(), End()
    yield made
    for one in made:
        one.channel.close()
        one.join()
        one.channel.forget()


def connect(one: End, other: End) -> None:
    """Begin a connection as both sides do: each says which messages it has received."""
    one.channel.resume(other.channel.received)
    other.channel.resume(one.channel.received)
    mine, theirs = socket.socketpair()
    one.serve(mine)
    other.serve(theirs)


def test_messages_go_both_ways_in_order(ends: tuple[End, End]) -> None:
    one, other = ends
    one.channel.send(Warned("before the first connection"))
    connect(one, other)
    other.channel.send(Warned("back"), Warned("again"))
    assert other.next() == "before the first connection"
    assert (one.next(), one.next()) == ("back", "again")
    assert one.channel.wait_over(LIMIT_S) and other.channel.wait_over(LIMIT_S)
    assert one.channel.kept_bytes == 0


def test_a_dropped_connection_is_taken_up(
    ends: tuple[End, End], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resumable, "PART_BYTES", 64)
    one, other = ends
    texts = [f"{number}" * (number % 90) for number in range(300)]
    for at in range(0, 300, 50):
        connect(one, other)
        for text in texts[at : at + 50]:
            one.channel.send(Warned(text))
        (one if at % 100 else other).channel.drop()
        one.join()
        other.join()
    connect(one, other)
    assert [other.next() for _ in texts] == texts
    assert other.got.empty()


def test_a_sender_waits_while_much_is_on_its_way(
    ends: tuple[End, End], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "KEPT_BYTES", 100)
    one, other = ends
    one.channel.send(Warned("x" * 200))
    sender = threading.Thread(
        target=lambda: one.channel.send(Warned("last"), may_wait=True), daemon=True
    )
    sender.start()
    assert other.got.empty()
    connect(one, other)
    assert other.next() == "x" * 200 and other.next() == "last"
    sender.join(LIMIT_S)
    assert not sender.is_alive()


def test_a_full_reader_reads_no_more_until_it_has_room(ends: tuple[End, End]) -> None:
    one, _ = ends
    asked: list[bool] = []
    is_full = True

    def full() -> bool:
        asked.append(is_full)
        return is_full

    other = End()
    other.channel = Channel(other._take, full)
    try:
        connect(one, other)
        one.channel.send(Warned("waits"))
        eventually(lambda: len(asked) > 5)
        assert other.got.empty() and one.channel.kept_bytes
        is_full = False
        assert other.next() == "waits" and one.channel.wait_over(LIMIT_S)
    finally:
        other.channel.close()
        other.join()
        other.channel.forget()


def test_a_closed_channel_takes_nothing_more(ends: tuple[End, End]) -> None:
    one, other = ends
    connect(one, other)
    one.channel.close()
    one.join()
    other.join()
    with pytest.raises(ConnectionError):
        one.channel.send(Warned("late"))


@pytest.mark.parametrize(
    "data",
    [
        (PACKET_FRAME_BYTES + 1).to_bytes(4, "big"),
        b"\0\0\0\1\xc1",
        encode_frame([Packet(2, 0, b"skips one")]),
        encode_frame([Packet(1, 7, b"reports what was not sent")]),
    ],
    ids=["large", "no msgpack", "gap", "lie"],
)
def test_other_bytes_end_the_connection(ends: tuple[End, End], data: bytes) -> None:
    one, _ = ends
    mine, theirs = socket.socketpair()
    with theirs:
        one.serve(mine)
        theirs.sendall(data)
        one.join()
    assert len(one.faults) == 1 and one.got.empty()
