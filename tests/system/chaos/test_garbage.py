"""Garbage is sent to every socket of a session by a process of the same user: no process ends."""

from __future__ import annotations

import os
import random
import socket
import struct

import msgspec
import pytest
from msgspec import Raw
from tests.polling import eventually
from tests.system.chaos.footprint import is_running

from phalanx.protocol.asking import Ask, Reply
from phalanx.protocol.frames import encode_frame
from phalanx.protocol.messages import (
    PROTOCOL_VERSION,
    Borrow,
    Call,
    Cancel,
    Done,
    Failed,
    Fetch,
    Hello,
    Item,
    Returned,
    Task,
    Value,
)
from phalanx.protocol.node_messages import (
    Granted,
    KillWorker,
    LeaseDue,
    LeaseReturned,
    LeaseWanted,
    Stop,
    Terminate,
    WorkerDied,
)
from phalanx.protocol.requests.actors import RegisterActor
from phalanx.protocol.requests.cluster import ListNodes
from phalanx.protocol.requests.node import ReserveMemory
from phalanx.protocol.requests.request import NOTHING, encode_request
from phalanx.protocol.wire_errors import WireError

STRANGER = b"\x07" * 16
PATH = b"../../nowhere"


def raw(length, seed):
    return random.Random(seed).randbytes(length)


def framed(body):
    return struct.pack(">I", len(body)) + body


def said(*messages):
    """Well-formed messages without an introduction."""
    return encode_frame(list(messages))


def introduced(*messages, kind="worker", version=PROTOCOL_VERSION, process=STRANGER):
    return encode_frame([Hello(version, process, kind, 1), *messages])


BIG = 2**63 - 1
GARBAGE = {
    "random bytes": raw(4096, 1),
    "random bytes in a frame": framed(raw(4096, 2)),
    "a length without end": b"\xff\xff\xff\xff" + raw(64, 3),
    "half a frame": introduced(Fetch(1))[:-3],
    "an empty frame": framed(b""),
    "no list": framed(msgspec.msgpack.encode({"a": [1, 2]})),
    "an unknown message": framed(msgspec.msgpack.encode([[250, 1, 2]])),
    "wrong fields": framed(msgspec.msgpack.encode([[0, "one", 2, 3, 4]])),
    "text that is not UTF-8": framed(b"\x91\x94\x1e\x01\xa1\xff\x80"),
    "endless nesting": framed(b"\x91\x94\x1e\x01\xa1x\x81\xa1a" + b"\x91" * 100_000),
    "another version": introduced(version=99),
    "a name of no length": introduced(process=b""),
    "tasks of nobody": introduced(Task(1, b"unknown"), Task(BIG, b"")),
    "a task that is not introduced": said(Task(1, b"unknown")),
    "calls of nobody": introduced(Call(1, "method"), Call(2, "", actor=b"x")),
    "questions nobody can answer": introduced(Fetch(-1), Fetch(BIG), Fetch(0)),
    "results nobody asked for": introduced(Done(1, b"junk", 0.0, 0.0), Failed(1, b"x", 0.0, 0.0)),
    "shared memory elsewhere": introduced(Done(BIG, Value(1, PATH, [], [], 9), 0.0, 0.0)),
    "shared memory with no name": introduced(Done(7, Value(1, b"\xff", [], [], -1), 0.0, 0.0)),
    "references of no length": introduced(Done(7, Value(0, b"", [], [(b"", -5)]), 0.0, 0.0)),
    "items of no stream": introduced(Item(1, -1, b""), Returned([1, 2])),
    "leases of nobody": introduced(LeaseReturned(1), KillWorker(1), LeaseDue(1)),
    "a grant": introduced(Granted(77, 1, STRANGER, {}, {})),
    "a grant of no class": said(Granted(0, 0, b"", {}, {})),
    "a death": introduced(WorkerDied(STRANGER, "", "crashed")),
    "requests of no kind": introduced(
        Ask(1, -1, Raw(b"\x90")),
        Ask(2, ReserveMemory.kind, encode_request(ReserveMemory(-5))),
        Ask(3, ListNodes.kind, Raw(b"\x81\xa1x\x01")),
    ),
    "a request to register nonsense": introduced(Ask(1, RegisterActor.kind, Raw(b"\x92\x03\xc0"))),
    "a wish for nothing": introduced(LeaseWanted(1, {"CPU": -1.0}, 5)),
    "a wish for half a device": introduced(LeaseWanted(1, {"GPU": 1.5}, 5)),
    "a wish without end": introduced(LeaseWanted(1, {"CPU": float("inf")}, 5)),
    "a wish for a group": introduced(LeaseWanted(1, {}, 5, b"", {"group": "zz"})),
    "replies to nobody": introduced(Reply(1, NOTHING), Reply(-1, NOTHING, WireError("a", "b"))),
    "a borrower of nothing": introduced(Borrow([1, -1, BIG]), Cancel(1, True)),
    "an order to stop": said(Stop("please")),
    "an order to end": said(Terminate("please")),
}


@pytest.fixture(scope="module")
def session():
    """Start one session for all tests of this module, so that a later test finds the harm that
    garbage has done.
    """
    from tests.system.chaos.footprint import Footprint

    import phalanx

    phalanx.shutdown()
    footprint = Footprint.of(phalanx.init(num_cpus=2, log_to_driver=False))

    @phalanx.remote
    def double(number):
        return 2 * number

    @phalanx.remote
    class Adder:
        def __init__(self):
            self.total = 0

        def add(self, number):
            self.total += number
            return self.total

    actor = Adder.options(num_cpus=0).remote()
    assert phalanx.get(actor.add.remote(1), timeout=120) == 1
    yield footprint, double, actor
    phalanx.shutdown()


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_harms_nobody(session, ray, name):
    footprint, double, actor = session
    before = {
        footprint.node,
        footprint.fork_server,
        ray.get(actor.__ray_call__.remote(pid), timeout=120),
    }
    at_work = [double.remote(n) for n in range(20)]
    count = ray.get(actor.add.remote(1), timeout=120)
    for path in footprint.sockets():
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stranger:
            try:
                stranger.connect(str(path))
                stranger.sendall(GARBAGE[name])
                stranger.shutdown(socket.SHUT_WR)
                stranger.settimeout(0.05)
                stranger.recv(1 << 16)
            except (ConnectionError, TimeoutError, FileNotFoundError):
                continue  # it hung up, or has nothing to say
    assert ray.get(at_work, timeout=120) == [2 * n for n in range(20)]
    assert ray.get([double.remote(n) for n in range(20)], timeout=120) == [2 * n for n in range(20)]
    assert ray.get(actor.add.remote(1), timeout=120) == count + 1, "the actor lives on"
    assert all(map(is_running, before))
    eventually(lambda: ray.available_resources().get("CPU") == 2, "all CPUs free again")


def pid(instance):
    return os.getpid()
