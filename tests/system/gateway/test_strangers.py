"""A port scan: a client without the token reaches no process, whatever it sends, and uses few
resources.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.system.gateway.world import (
    LIMIT_S,
    Node,
    new_token,
    readable,
    receive_exactly,
    resident_bytes,
    take_handed,
)

from phalanx.errors import AuthenticationError
from phalanx.protocol.frames import encode_frame
from phalanx.protocol.gateway_messages import AuthFailed, Unable
from phalanx.protocol.handshake import (
    CHALLENGE_BYTES,
    VERDICT_BYTES,
    DiallersHandshake,
    Role,
    Status,
)
from phalanx.protocol.messages import PROTOCOL_VERSION, Hello
from phalanx.runtime.daemons import cluster_token
from phalanx.runtime.gateway.chunks import CHUNK_BYTES, GET_BYTES, encode_get
from phalanx.runtime.gateway.gate import gate_of
from phalanx.runtime.gateway.turns import AT_ONCE_OF_ADDRESS, WAITING

RANDOM = random.Random(7)
GROWTH_BYTES = 50 << 20


def hello(token=bytes(32), **changes):
    fields = {"role": Role.DIAL, "target": bytes(16), "nonce": RANDOM.randbytes(32), **changes}
    return DiallersHandshake(token, **fields)


PROBES = {
    "nothing, and an end": b"",
    "one byte": b"\x00",
    "half a hello": hello().hello[:30],
    "a hello and garbage": hello().hello + RANDOM.randbytes(32),
    "a hello and an endless proof": hello().hello + bytes(1 << 20),
    "another version": hello(version=PROTOCOL_VERSION + 1).hello,
    "a role that does not exist": b"PHLX" + struct.pack("!HB", PROTOCOL_VERSION, 9) + bytes(49),
    "a target of another node": hello(target=b"\xff" * 16).hello + bytes(32),
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100,
    "a frame of the engine": encode_frame([Hello(PROTOCOL_VERSION, bytes(16), "node", 1)]),
    "a length without end": b"\xff\xff\xff\xff" + RANDOM.randbytes(100),
    "a pickle": b"\x80\x05\x95\x1f\x00\x00\x00cposix\nsystem\n",
    "a request for an object": encode_get(f"{'0' * 32}-1", 0, 8 << 20),
    "TLS where there is none": b"\x16\x03\x01\x02\x00\x01" + RANDOM.randbytes(500),
    "TLS with a record too long": b"\x16\x03\x03\xff\xff" + RANDOM.randbytes(70_000),
    "Redis": b"*1\r\n$4\r\nPING\r\n",
    "zeros": bytes(1 << 20),
    "random": RANDOM.randbytes(1 << 20),
    "random after the magic": b"PHLX" + RANDOM.randbytes(5000),
    "SSH": b"SSH-2.0-OpenSSH_9.6\r\n",
}


def strange(node, data, source):
    """Send all data and close the sending side. Returns (seconds, the bytes that came back)."""
    came = b""
    began = time.monotonic()
    with socket.create_connection(node.address, LIMIT_S, (source, 0)) as sock:
        with contextlib.suppress(OSError):
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            while piece := sock.recv(4096):
                came += piece
    return time.monotonic() - began, came


def mutated(data):
    """Return the data with up to three bytes changed, and at times one byte removed."""
    changed = bytearray(data)
    for _ in range(RANDOM.randrange(4)):
        changed[RANDOM.randrange(len(changed))] = RANDOM.randrange(256)
    if RANDOM.random() < 0.3:
        del changed[RANDOM.randrange(len(changed))]
    return bytes(changed)


@pytest.fixture
def node(start):
    return start(1)[0]


def test_a_stranger_reaches_nobody(start, node):
    target, listening = node.open_process(node.prefix + bytes(10))
    before = resident_bytes(node.process.pid)
    sources = {name: f"127.0.0.{2 + number}" for number, name in enumerate(PROBES)}
    with ThreadPoolExecutor(len(PROBES)) as threads:
        answers = threads.map(
            lambda name: strange(node, PROBES[name], sources[name]),  # an address of its own each
            PROBES,
        )
        for name, (seconds, came) in zip(PROBES, answers, strict=True):
            assert len(came) <= CHALLENGE_BYTES + VERDICT_BYTES, name
            assert seconds > 0.9, f"{name}: answered before its second was over"
    failed = [node.wait_for(AuthFailed) for _ in PROBES]
    assert {(f.address, f.count) for f in failed} == {(source, 1) for source in sources.values()}
    assert not readable(listening, 0), "nobody was handed to the process"
    assert resident_bytes(node.process.pid) - before < GROWTH_BYTES
    (friend,) = start(1, know=False)
    friend.know(node)
    mine = friend.ask(target)
    take_handed(listening)[0].close()
    mine.close()


def test_a_flood_of_garbage_costs_no_memory(start, node):
    before = resident_bytes(node.process.pid)
    garbage = RANDOM.randbytes(1 << 16)
    socks = []
    for number in range(300):
        source = f"127.0.{1 + number // 15}.{1 + number % 15}"
        sock = socket.create_connection(node.address, LIMIT_S, (source, 0))
        sock.setblocking(False)
        with contextlib.suppress(BlockingIOError, ConnectionError):
            sock.send(mutated(hello().hello))
            while True:  # as much as the kernel takes
                sock.send(garbage)
        socks.append(sock)
    counted = 0
    while counted < len(socks):
        counted += node.wait_for(AuthFailed).count
    assert resident_bytes(node.process.pid) - before < GROWTH_BYTES
    for sock in socks:
        sock.close()


STRANGERS = {
    "wrong": b"x" * 100,
    "silent": b"",
    "half a hello": hello().hello[:30],
}


@pytest.mark.parametrize("count", [40, 3 * AT_ONCE_OF_ADDRESS])
def test_a_friend_is_let_in_whatever_strangers_of_its_address_do(start, count):
    """A stranger with an account on the machine has the same address as the cluster's owner,
    127.0.0.1. In an earlier version, twenty failures from there refused the address for a minute,
    also to everybody who holds the token.

    Each kind of stranger uses a gateway of its own. All run at the same time, because each failure
    is answered a second late.
    """
    nodes = start(len(STRANGERS), know=False)

    def beside(node, sent):
        token = cluster_token.read(node.token_file)
        with contextlib.ExitStack() as open_ones:
            let = []
            for _ in range(2):
                for _ in range(count):
                    address = node.address
                    sock = open_ones.enter_context(socket.create_connection(address, LIMIT_S))
                    sock.sendall(sent)
                let.append(let_in(node, token))
            node.wait_for(AuthFailed)  # strangers have failed meanwhile
            return [*let, let_in(node, token)]

    with ThreadPoolExecutor(len(nodes)) as threads:
        let = threads.map(beside, nodes, STRANGERS.values())
        assert dict(zip(STRANGERS, let, strict=True)) == dict.fromkeys(STRANGERS, [True] * 3)


def test_a_friend_is_let_in_while_more_strangers_wait_than_may(node):
    token = cluster_token.read(node.token_file)
    with contextlib.ExitStack() as open_ones:
        for _ in range(WAITING + 2 * AT_ONCE_OF_ADDRESS):
            open_ones.enter_context(socket.create_connection(node.address, LIMIT_S))
        assert let_in(node, token)


def let_in(node, token):
    """Whether a holder of the token gets past the handshake. It is then told that the process does
    not exist; strangers are not told that.
    """
    side = hello(token)
    with socket.create_connection(node.address, LIMIT_S) as sock:
        sock.sendall(side.hello)
        sock.sendall(side.proof(receive_exactly(sock, CHALLENGE_BYTES)))
        return side.finish(receive_exactly(sock, VERDICT_BYTES)) is Status.NO_PROCESS


def test_a_slow_stranger_is_cut_off(node):
    with socket.create_connection(node.address, LIMIT_S) as sock:
        sock.sendall(hello().hello[:-1])
        assert sock.recv(1) == b"", "the deadline of the whole handshake"
    assert node.wait_for(AuthFailed).count == 1


def test_a_recorded_handshake_is_worth_nothing(node):
    side = hello(cluster_token.read(node.token_file), target=node.prefix + bytes(10))
    with socket.create_connection(node.address, LIMIT_S) as sock:
        sock.sendall(side.hello)
        proof = side.proof(receive_exactly(sock, CHALLENGE_BYTES))
        sock.sendall(proof)
        assert side.finish(receive_exactly(sock, VERDICT_BYTES)) is Status.NO_PROCESS
    again = hello()
    with socket.create_connection(node.address, LIMIT_S) as sock:
        sock.sendall(side.hello + proof)
        again.proof(receive_exactly(sock, CHALLENGE_BYTES))
        with pytest.raises(AuthenticationError, match="refused"):
            again.finish(receive_exactly(sock, VERDICT_BYTES))
    assert node.wait_for(AuthFailed).count == 1


def test_another_version_hears_ours(node):
    side = hello(version=99)
    with socket.create_connection(node.address, LIMIT_S) as sock:
        sock.sendall(side.hello)
        answer = receive_exactly(sock, CHALLENGE_BYTES)
    assert struct.unpack_from("!4sHB", answer) == (b"PHLX", PROTOCOL_VERSION, 2)


def test_what_a_friend_asks_is_bounded_too(start, node):
    """If a holder of the token breaks the rules of transfers, it loses its connection, and nothing
    else happens.
    """
    token = cluster_token.read(node.token_file)
    requests = [
        b"../../../../etc/passwd".ljust(GET_BYTES, b"\x00"),
        RANDOM.randbytes(GET_BYTES),
        encode_get(f"{'0' * 32}-1", 0, 1 << 60),
        encode_get(f"{'0' * 32}-1", 1 << 60, 10),
    ]
    (Path(node.session.shared) / f"{'0' * 32}-1").write_bytes(b"short")
    for request in requests:
        with transfer_connection(node, token) as sock:
            sock.sendall(request)
            assert sock.recv(1) == b""


def transfer_connection(node, token):
    """Return a connection as another node's gateway opens it to get objects."""
    side = hello(token, role=Role.TRANSFER, target=node.prefix + bytes(10))
    sock = socket.create_connection(node.address, LIMIT_S)
    sock.sendall(side.hello)
    sock.sendall(side.proof(receive_exactly(sock, CHALLENGE_BYTES)))
    assert side.finish(receive_exactly(sock, VERDICT_BYTES)) is Status.OK
    return sock


def test_nodes_that_froze_while_they_fetched_keep_no_other_waiting(start):
    from tests.system.gateway.test_transfer import pull, put

    here, there = start()
    token = cluster_token.read(there.token_file)
    name, _ = put(there, CHUNK_BYTES)
    with contextlib.ExitStack() as frozen:
        for _ in range(24):
            sock = frozen.enter_context(transfer_connection(there, token))
            sock.sendall(encode_get(name, 0, CHUNK_BYTES))
            assert readable(sock), "it is served, and reads nothing"
        assert pull(here, name, CHUNK_BYTES, there).ok


def test_links_among_objects_are_not_followed(start):
    from tests.system.gateway.test_transfer import pull

    here, there = start()
    name = f"{'0' * 32}-1"
    os.symlink("/etc/passwd", os.path.join(there.session.shared, name))
    assert not pull(here, name, os.stat("/etc/passwd").st_size, there).ok


def test_garbage_at_the_gate(start, node):
    for probe in (b"", b"\x00", b"\x00\x09" + bytes(16), bytes(18), RANDOM.randbytes(4096)):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(LIMIT_S)
            sock.connect(gate_of(node.session))
            with contextlib.suppress(OSError):
                sock.sendall(probe)
                sock.shutdown(socket.SHUT_WR)
                assert len(sock.recv(4096)) < 1025


def test_the_token_is_nowhere_but_in_its_file(node):
    token = Path(node.token_file).read_text().strip().encode()
    seen = b""
    for name in ("cmdline", "environ"):
        with contextlib.suppress(PermissionError):
            seen += Path(f"/proc/{node.process.pid}/{name}").read_bytes()
    assert token not in seen
    limits = Path(f"/proc/{node.process.pid}/limits").read_text()
    (core,) = [line for line in limits.splitlines() if line.startswith("Max core file size")]
    assert core.split()[4:6] == ["0", "0"]
    if os.getuid():  # root's own files look the same
        assert os.stat(f"/proc/{node.process.pid}/mem").st_uid == 0, "it cannot be traced"


@pytest.mark.parametrize(
    ("host", "environment", "why"),
    [
        ("192.0.2.77", {}, "cannot listen on 192.0.2.77:0"),
        ("0.0.0.0", {"PYTHONPATH": "{hidden}"}, "needs TLS, and TLS needs the package"),
    ],
    ids=["not ours", "without cryptography"],
)
def test_a_gateway_that_cannot_listen_says_why(place, monkeypatch, host, environment, why):
    hidden = Path(place, "hidden", "cryptography")
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ImportError('hidden')")
    for name, value in environment.items():
        monkeypatch.setenv(name, value.format(hidden=hidden.parent))
    node = Node(place, new_token(place), host=host)
    assert isinstance(node.first, Unable)
    assert why in node.first.reason
    assert node.process.wait(LIMIT_S) == 0
    node.close()


def test_a_gateway_without_a_token_says_so(place):
    node = Node(place, os.path.join(place, "none"))
    assert isinstance(node.first, Unable)
    assert "there is no token at" in node.first.reason
    node.close()
