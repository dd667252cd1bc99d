"""A head's gateway connects a client with its driver. Each connection needs its own permission of
the head.
"""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from tests.system.gateway.world import LIMIT_S, take_handed

from phalanx.model.ids import CONTROL, OWN_CLUSTER_DOOR, PREFIX_BYTES, client_socket_of
from phalanx.protocol.gateway_messages import Admit, KnowTokens
from phalanx.protocol.handshake import Role, Status
from phalanx.runtime.daemons import cluster_token
from phalanx.runtime.daemons.personal_token import PersonalToken, new_token
from phalanx.runtime.daemons.remote import connected, exactly

NO_TOKEN = "phx_" + "A" * 43
"""A token that belongs to no cluster."""


class Place:
    """The gateway of a head, the gateway of a node with a driver, and two tokens."""

    def __init__(self, start) -> None:
        (self.head,) = start(1, prefix=CONTROL[:PREFIX_BYTES])
        (self.node,) = start(1)
        self.ana, self.bo = new_token(), new_token()
        self.know(self.ana, self.bo)
        driver = self.node.prefix + b"random" + b"job1"
        self.target, self.driver = self.node.open_process(client_socket_of(driver))

    def know(self, *tokens: PersonalToken) -> None:
        self.head.channel.send(KnowTokens({one.id: [one.secret_hash] for one in tokens}))

    def admit(self, token: PersonalToken, target: bytes | None = None) -> None:
        host, port = self.node.address
        self.head.channel.send(Admit(token.id, target or self.target, host, port))

    def come(self, token: PersonalToken, target: bytes | None = None) -> tuple[socket.socket, int]:
        """Connect a client that proves that it knows its token and names a driver; return the
        socket and the gateway's answer.
        """
        host, port = self.head.address
        sock = connected(host, port, token, LIMIT_S, role=Role.CLIENT_DRIVER)
        sock.settimeout(LIMIT_S)
        sock.sendall(target or self.target)
        return sock, exactly(sock, 1)[0]


@pytest.fixture
def place(start) -> Place:
    return Place(start)


def refused(place: Place, token: PersonalToken, target: bytes | None = None) -> int:
    sock, status = place.come(token, target)
    with sock:
        assert sock.recv(1) == b"", "nothing follows"
    return status


def test_a_client_reaches_its_driver_once(place: Place) -> None:
    place.admit(place.ana)
    client, status = place.come(place.ana)
    assert status == Status.OK
    driver, _ = take_handed(place.driver)
    with client, driver:
        client.sendall(b"hello")
        assert exactly(driver, 5) == b"hello"
        driver.sendall(b"there")
        assert exactly(client, 5) == b"there"
        assert refused(place, place.ana) == Status.NO_PROCESS, "the permission was used"


def test_a_driver_in_a_cluster_of_its_own_is_reached_beside_its_head(
    place: Place, start, tmp_path: Path
) -> None:
    file = tmp_path / "token-of-the-job"
    cluster_token.ensure(str(file))
    (own,) = start(1, know=False, prefix=CONTROL[:PREFIX_BYTES], token_file=file)
    _, waiting = own.open_process(OWN_CLUSTER_DOOR)
    host, port = own.address
    named = bytes(range(16))
    for secret, expected in [(file.read_text().strip(), Status.OK), (NO_TOKEN, Status.UNREACHABLE)]:
        place.head.channel.send(Admit(place.ana.id, named, host, port, secret))
        client, status = place.come(place.ana, named)
        with client:
            assert status == expected
            if status == Status.OK:
                driver, _ = take_handed(waiting)
                with driver:
                    client.sendall(b"hello")
                    assert exactly(driver, 5) == b"hello"


def test_a_permission_is_for_one_token_and_one_driver(place: Place) -> None:
    place.admit(place.ana)
    assert refused(place, place.bo) == Status.NO_PROCESS
    assert refused(place, place.ana, bytes(16)) == Status.NO_PROCESS
    client, status = place.come(place.ana)
    assert status == Status.OK, "the tries of others used nothing up"
    client.close()


def test_a_driver_that_is_gone_cannot_be_reached(place: Place) -> None:
    nothing = place.node.prefix + bytes(10)
    place.admit(place.ana, nothing)
    assert refused(place, place.ana, nothing) == Status.NO_PROCESS
    place.node.close()
    place.node.is_killed = True
    place.admit(place.ana)
    assert refused(place, place.ana) == Status.UNREACHABLE


def test_a_revoked_token_ends_the_connection(place: Place) -> None:
    place.admit(place.ana)
    client, status = place.come(place.ana)
    assert status == Status.OK
    driver, _ = take_handed(place.driver)
    with client, driver:
        place.know(place.bo)
        assert client.recv(1) == b"" and driver.recv(1) == b""
