"""TLS between gateways on an address that other machines could reach, and attackers between the two
gateways.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import threading

import pytest
from tests.ports import own_address
from tests.system.gateway.test_dialling import talk
from tests.system.gateway.test_transfer import digest_of, pull, put
from tests.system.gateway.world import (
    LIMIT_S,
    readable,
    receive_exactly,
    resident_bytes,
    take_handed,
)

from phalanx.errors import AuthenticationError, PhalanxError, ProtocolError
from phalanx.protocol.gateway_messages import AddressBook, AuthFailed
from phalanx.protocol.handshake import HELLO_BYTES
from phalanx.runtime.gateway.gate import DialError
from phalanx.runtime.gateway.tls import Identity, dialling_context
from phalanx.runtime.os import session as sessions

HOST = own_address()
pytestmark = pytest.mark.skipif(not HOST, reason="this machine has no address but loopback")


def know(node, other, address=None):
    address = address or (HOST, other.address[1])
    node.channel.send(AddressBook({other.prefix.hex(): address}))


@pytest.fixture
def pair(start):
    here, there = start(2, know=False, host="0.0.0.0")
    know(here, there)
    return here, there


def test_processes_speak_through_tls(pair):
    here, there = pair
    target, listening = there.open_process()
    mine = here.ask(target)
    assert mine.family == socket.AF_UNIX, "a relay, not the bare socket"
    theirs, _ = take_handed(listening)
    talk(mine, theirs)


def test_a_relay_carries_much_both_ways_and_waits_for_slow_readers(pair):
    here, there = pair
    target, listening = there.open_process()
    ends = [here.ask(target), take_handed(listening)[0]]
    sent = os.urandom(1 << 20) * 12
    senders = [threading.Thread(target=end.sendall, args=(sent,), daemon=True) for end in ends]
    before = [resident_bytes(node.process.pid) for node in pair]
    for sender in senders:
        sender.start()
    assert readable(ends[0])  # and nobody reads: both gateways are full now
    for end in ends:
        assert receive_exactly(end, len(sent)) == sent
    for sender in senders:
        sender.join(LIMIT_S)
    after = [resident_bytes(node.process.pid) for node in pair]
    assert max(b - a for a, b in zip(before, after, strict=True)) < 4 << 20
    ends[0].close()
    assert ends[1].recv(1) == b""
    ends[1].close()


def test_objects_come_through_tls(pair):
    here, there = pair
    for size in (0, 1000, 40 << 20):
        name, digest = put(there, size)
        assert pull(here, name, size, there).ok
        assert digest_of(here, name) == digest


def test_certificate_and_key_are_for_nobody_else(pair):
    for node in pair:
        assert len(node.first.fingerprint) == 64
        for directory, _, files in os.walk(node.session.directory):
            for path in (directory, *(os.path.join(directory, file) for file in files)):
                assert os.lstat(path).st_mode & 0o077 == 0, path


def test_who_dials_without_tls_is_told(start, pair):
    _, there = pair
    (insecure,) = start(1, know=False, insecure=True)
    know(insecure, there)
    with pytest.raises(ProtocolError, match="it accepts only TLS"):
        insecure.ask(there.prefix + bytes(10))
    assert there.wait_for(AuthFailed).address == HOST


def test_who_listens_without_tls_is_not_spoken_to(start, pair):
    here, _ = pair
    (insecure,) = start(1, know=False, insecure=True, host="0.0.0.0")
    know(here, insecure)
    with pytest.raises(DialError, match="handshake"):
        here.ask(insecure.prefix + bytes(10))


class Between:
    """A proxy that changes the bytes that pass. It replaces each piece from either side by
    `alter(count, data)`.
    """

    def __init__(self, address, alter):
        self._address = address
        self._alter = alter
        self._listening = socket.create_server((HOST, 0))
        self.address = self._listening.getsockname()
        self._threads = [threading.Thread(target=self._serve, daemon=True)]
        self._threads[0].start()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(self._address)
                for pair in ((client, server, "out"), (server, client, "in")):
                    thread = threading.Thread(target=self._carry, args=pair, daemon=True)
                    self._threads.append(thread)
                    thread.start()

    def _carry(self, source, sink, way):
        passed = 0
        with source, contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(self._alter(way, passed, data))
                passed += len(data)
            sink.shutdown(socket.SHUT_WR)

    def close(self):
        socket.socket.shutdown(self._listening, socket.SHUT_RDWR)
        self._listening.close()
        for thread in self._threads:
            thread.join(LIMIT_S)
            assert not thread.is_alive()


def flip(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize("way", ["out", "in"])
@pytest.mark.parametrize("at", [20, 300])
def test_an_altered_byte_ends_the_handshake(pair, way, at):
    here, there = pair

    def alter(going, passed, data):
        hit = at - passed
        return flip(data, hit) if going == way and 0 <= hit < len(data) else data

    between = Between((HOST, there.address[1]), alter)
    know(here, there, between.address)
    target, listening = there.open_process()
    with pytest.raises((PhalanxError, ConnectionError)):
        here.ask(target)
    assert not readable(listening, 0)
    between.close()


@pytest.mark.parametrize("way", ["out", "in"])
def test_an_altered_byte_ends_the_connection(pair, way):
    here, there = pair
    armed = threading.Event()

    def alter(going, passed, data):
        return flip(data, len(data) // 2) if going == way and armed.is_set() else data

    between = Between((HOST, there.address[1]), alter)
    know(here, there, between.address)
    target, listening = there.open_process()
    mine = here.ask(target)
    theirs, _ = take_handed(listening)
    mine.sendall(b"well")
    assert receive_exactly(theirs, 4) == b"well"
    armed.set()
    sender, receiver = (mine, theirs) if way == "out" else (theirs, mine)
    sender.sendall(b"x" * 1000)
    assert receiver.recv(1000) == b"", "not one byte of it arrives"
    mine.close()
    theirs.close()
    between.close()


def test_a_certificate_of_somebody_else_is_seen_through(pair, place):
    """The attacker is a proxy that ends TLS on both sides and passes the handshake on unchanged."""
    here, there = pair
    session = sessions.create(place)
    identity = Identity(os.path.join(session.directory, "gateway.pem"), session.name)
    listening = socket.create_server((HOST, 0))

    def serve():
        client, _ = listening.accept()
        with contextlib.suppress(OSError), contextlib.ExitStack() as open_:
            client = open_.enter_context(identity.context.wrap_socket(client, server_side=True))
            server = socket.create_connection((HOST, there.address[1]))
            server = open_.enter_context(dialling_context().wrap_socket(server))
            server.sendall(receive_exactly(client, HELLO_BYTES))
            client.sendall(receive_exactly(server, 40))
            server.sendall(receive_exactly(client, 32))
            client.sendall(receive_exactly(server, 33))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    know(here, there, listening.getsockname())
    target, process = there.open_process()
    with pytest.raises(AuthenticationError, match="do not hold the same token"):
        here.ask(target)
    thread.join(LIMIT_S)
    assert not thread.is_alive()
    assert there.wait_for(AuthFailed).count == 1
    assert not readable(process, 0)
    listening.close()
    sessions.remove(session)


def test_older_tls_is_refused(pair):
    _, there = pair
    context = dialling_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection((HOST, there.address[1])) as sock, pytest.raises(ssl.SSLError):
        context.wrap_socket(sock)
