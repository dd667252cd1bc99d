"""A process of one node connects to a process of another node, through two real gateways."""

from __future__ import annotations

import os
import secrets
import socket

import pytest
from tests.system.gateway.world import (
    Node,
    new_token,
    readable,
    receive_exactly,
    take_handed,
    take_socket,
)

from phalanx.errors import AuthenticationError
from phalanx.protocol.gateway_messages import AddressBook, AuthFailed
from phalanx.protocol.handshake import Status
from phalanx.runtime.gateway.gate import DialError, request_dial

MANY = os.urandom(1 << 20)


def talk(one, other):
    """Check that bytes pass both ways, and that each side notices when the other side closes."""
    one.sendall(b"there")
    assert receive_exactly(other, 5) == b"there"
    other.sendall(MANY[: 1 << 16])
    assert receive_exactly(one, 1 << 16) == MANY[: 1 << 16]
    one.close()
    assert other.recv(1) == b""
    other.close()


def test_a_socket_is_passed_to_the_process_that_is_meant(start):
    here, there = start()
    target, listening = there.open_process()
    mine = here.ask(target)
    theirs, address = take_handed(listening)
    assert address == "{}:{}".format(*mine.getsockname()), "the very socket, no relay"
    talk(mine, theirs)


@pytest.mark.parametrize("prefix", [None, bytes(6)], ids=["node", "control"])
def test_a_node_and_the_head_have_names_of_their_own(start, prefix):
    (here,), (there,) = start(1), start(1, prefix=prefix)
    here.know(there)
    if prefix is None:
        target, listening = there.open_process(there.prefix + bytes(10))
    else:
        target = bytes(16)
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(os.path.join(there.session.sockets, "control"))
        listening.listen()
    mine = here.ask(target)
    theirs, _ = take_handed(listening)
    talk(mine, theirs)
    listening.close()


def test_what_cannot_be_reached_is_named(start):
    here, there = start()
    free = socket.socket()
    free.bind(("127.0.0.1", 0))  # bound and not listening: refused, and nobody else gets it
    nowhere = ("127.0.0.1", free.getsockname()[1])
    here.channel.send(AddressBook({"aa" * 6: nowhere}))
    for target, status, text in [
        (secrets.token_bytes(16), Status.NO_NODE, "no node"),
        (b"\xaa" * 16, Status.UNREACHABLE, f"nothing listens at 127.0.0.1:{nowhere[1]}"),
        (there.prefix + b"\x01" * 10, Status.NO_PROCESS, "no such process"),
    ]:
        with pytest.raises(DialError, match=text) as caught:
            here.ask(target)
        assert caught.value.status is status
    # An address that now belongs to another node reaches nobody there.
    here.channel.send(AddressBook({"bb" * 6: there.address}))
    with pytest.raises(DialError, match="no such process"):
        here.ask(b"\xbb" * 6 + bytes(10))
    here.channel.send(AddressBook({there.prefix.hex(): ("", 0)}))
    with pytest.raises(DialError, match="no node"):
        here.ask(there.prefix + bytes(10))
    free.close()


def test_another_token_is_refused_and_told(start, place):
    (there,) = start(1)
    os.mkdir(os.path.join(place, "other"))
    (stranger,) = start(1, token_file=new_token(os.path.join(place, "other")))
    stranger.know(there)
    target, listening = there.open_process()
    with pytest.raises(AuthenticationError, match="do not hold the same token"):
        stranger.ask(target)
    failed = there.wait_for(AuthFailed)
    assert (failed.address, failed.count) == ("127.0.0.1", 1)
    listening.settimeout(0)
    with pytest.raises(BlockingIOError):
        listening.accept()


def test_the_gateway_ends_with_its_node_and_leaves_no_gate(start, place):
    node = Node(place, new_token(place))
    gate = os.path.join(node.session.sockets, "gate")
    assert os.stat(gate).st_mode & 0o777 == 0o600
    node.channel.close()
    assert node.process.wait(30) == 0
    assert not os.path.exists(gate)
    node.close()


def test_many_dials_at_once(start):
    here, there = start()
    target, listening = there.open_process()
    asked = [request_dial(here.session, target) for _ in range(100)]
    handed = [take_handed(listening) for _ in asked]
    assert all(readable(sock) for sock in asked)
    taken = [take_socket(sock) for sock in asked]
    mine = {"{}:{}".format(*sock.getsockname()) for sock in taken}
    assert mine == {address for _, address in handed}
    assert len(mine) == 100
    for sock in [*taken, *(sock for sock, _ in handed)]:
        sock.close()
