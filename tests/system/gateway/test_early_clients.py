"""Clients that come before the gateway of a head knows the head's tokens."""

from __future__ import annotations

import socket
import threading

from tests.polling import eventually
from tests.system.gateway.world import LIMIT_S

from phalanx.model.ids import CONTROL, PREFIX_BYTES
from phalanx.protocol.gateway_messages import KnowTokens
from phalanx.protocol.handshake import Role
from phalanx.runtime.daemons.personal_token import new_token
from phalanx.runtime.daemons.remote import connected


def test_a_head_that_has_just_started_refuses_nobody_before_it_knows_the_tokens(start) -> None:
    """In an earlier version, a client that reconnected in that moment was told that its token is
    unknown, and gave up.
    """
    (head,) = start(1, prefix=CONTROL[:PREFIX_BYTES])
    token = new_token()
    came: list[socket.socket | Exception] = []

    def come() -> None:
        try:
            host, port = head.address
            came.append(connected(host, port, token, LIMIT_S, role=Role.CLIENT_DRIVER))
        except Exception as error:
            came.append(error)

    client = threading.Thread(target=come)
    client.start()
    eventually(lambda: waits_for_an_answer(head.address[1]), "the client's hello")
    assert came == []
    head.channel.send(KnowTokens({token.id: [token.secret_hash]}))
    client.join()
    (sock,) = came
    assert isinstance(sock, socket.socket), sock
    sock.close()


def waits_for_an_answer(port: int) -> bool:
    """Whether a connection to this port has been accepted, and its hello was read."""
    local, queues = f"0100007F:{port:04X}", "00000000:00000000"
    with open("/proc/net/tcp", encoding="ascii") as file:
        rows = [line.split() for line in file.readlines()[1:]]
    return any(row[1] == local and row[3] == "01" and row[4] == queues for row in rows)
