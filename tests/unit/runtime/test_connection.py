"""The cost of a message for the process that receives it."""

from __future__ import annotations

import socket
import tracemalloc

import msgspec

from phalanx.runtime.os.connection import Connection


def test_a_small_message_takes_little_memory():
    here, there = socket.socketpair()
    receiver = Connection(here, decode=msgspec.msgpack.decode)
    body = msgspec.msgpack.encode(["it"])
    for wanted in (False, True):  # the first one makes the room that a thread receives in
        there.sendall(len(body).to_bytes(4, "big") + body)
        if wanted:
            tracemalloc.start()
        assert receiver.receive() == ["it"]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    receiver.close()
    there.close()
    assert peak < 1 << 14
