"""The socket at which a driver waits for its client: which clients are admitted, and how much is
read before that.
"""

from __future__ import annotations

import contextlib
import hashlib
import queue
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from phalanx.protocol.client_messages import (
    CLIENT_VERSION,
    GREETING_BYTES,
    Greeting,
    Warned,
    Welcome,
    decode_greeting,
    encode,
)
from phalanx.protocol.frames import encode_frame
from phalanx.protocol.resumable import Packet
from phalanx.runtime.client.channel import Channel, read_frame
from phalanx.runtime.client.door import Door, python_release

LIMIT_S = 60.0
SECRET = b"s" * 32


class Place:
    """A driver that serves this socket, and the messages that came through it."""

    def __init__(self, directory: str) -> None:
        self.path = str(Path(directory, "door"))
        self.got: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.channel = Channel(self.got.put)
        facts = Welcome(process=b"driver", namespace="mine")
        self.door = Door(self.path, hashlib.sha256(SECRET).digest(), self.channel, facts)
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self) -> None:
        self.door.serve(LIMIT_S, LIMIT_S)
        self.is_over.set()

    def come(self, data: bytes) -> socket.socket:
        """Connect as a gateway connects a client that sends these bytes."""
        mine, theirs = socket.socketpair()
        with socket.socket(socket.AF_UNIX) as gateway, theirs:
            gateway.connect(self.path)
            socket.send_fds(gateway, [b"handed"], [theirs.fileno()])
        mine.settimeout(LIMIT_S)
        mine.sendall(data)
        return mine

    def greet(self, **fields: Any) -> tuple[socket.socket, Welcome]:
        given: dict[str, Any] = {
            "version": CLIENT_VERSION,
            "secret": SECRET,
            "have": 0,
            "python": python_release(),
        }
        sock = self.come(encode_frame([Greeting(**given | fields)]))
        return sock, read_frame(sock, GREETING_BYTES, decode_greeting)

    def close(self) -> None:
        self.channel.close()
        self.thread.join(LIMIT_S)
        self.door.close()
        self.channel.forget()


def is_ended(sock: socket.socket) -> bool:
    """Wait until a connection has ended. If the other end has unread bytes, the connection may be
    reset.
    """
    with contextlib.suppress(ConnectionResetError):
        while sock.recv(1 << 16):
            pass
    return True


@pytest.fixture
def place() -> Iterator[Place]:
    with TemporaryDirectory(prefix="door", dir="/tmp") as directory:
        made = Place(directory)
        yield made
        made.close()


def test_the_client_of_the_session_is_let_in(place: Place) -> None:
    sock, welcome = place.greet()
    with sock:
        assert (welcome.refusal, welcome.process, welcome.namespace) == ("", b"driver", "mine")
        sock.sendall(encode_frame([Packet(1, 0, encode(Warned("hello")))]))
        assert place.got.get(timeout=LIMIT_S) == encode(Warned("hello"))


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"secret": b"t" * 32}, "belongs to another client"),
        ({"secret": b""}, "belongs to another client"),
        ({"version": 99}, "speaks version 99"),
        ({"python": "2.7"}, "runs Python 2.7"),
        ({"process": b"earlier"}, "the work of the first one is gone"),
    ],
)
def test_others_are_told_why_not(place: Place, fields: dict[str, Any], why: str) -> None:
    sock, welcome = place.greet(**fields)
    with sock:
        assert why in welcome.refusal and welcome.process == b""
        assert sock.recv(1) == b""


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        (GREETING_BYTES + 1).to_bytes(4, "big"),
        b"\0\0\0\1\x90",
        encode_frame([Welcome()]),
        encode_frame([Greeting(CLIENT_VERSION, SECRET, 0, "3")] * 2),
        encode_frame([Packet(1, 0, encode(Warned("too early")))]),
    ],
    ids=["http", "large", "empty", "welcome", "two", "packet"],
)
def test_nothing_but_a_greeting_is_read_from_a_stranger(place: Place, data: bytes) -> None:
    with place.come(data) as sock:
        assert is_ended(sock)
    assert place.got.empty() and not place.is_over.is_set()
    sock, welcome = place.greet()
    with sock:
        assert welcome.refusal == "", "the driver still waits for its client"


def test_a_second_connection_of_the_client_takes_the_place_of_the_first(place: Place) -> None:
    first, _ = place.greet()
    first.sendall(encode_frame([Packet(1, 0, encode(Warned("one")))]))
    assert place.got.get(timeout=LIMIT_S) == encode(Warned("one"))
    second, welcome = place.greet()
    with first, second:
        assert welcome.have == 1, "the driver has the first message"
        assert is_ended(first)
        second.sendall(encode_frame([Packet(1, 0, b"again"), Packet(2, 0, b"two")]))
        assert place.got.get(timeout=LIMIT_S) == b"two", "what came twice is dropped"


def test_a_client_that_lies_about_what_it_has_is_cut_off(place: Place) -> None:
    sock = place.come(encode_frame([Greeting(CLIENT_VERSION, SECRET, 7, python_release())]))
    with sock:
        assert is_ended(sock)
    again, welcome = place.greet()
    with again:
        assert welcome.refusal == ""
