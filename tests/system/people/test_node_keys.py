"""Nodes with keys of their own: such a key lets its node join and report, and allows nothing
else.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from tests.polling import eventually
from tests.system.cli.conftest import Machine
from tests.system.people.test_tokens import secret_of

from phalanx.model.ids import node_prefix
from phalanx.model.principals import UNIX, Principal
from phalanx.protocol.asking import Ask
from phalanx.protocol.bundle_messages import BundleInventory
from phalanx.protocol.cluster_messages import ForwardedAsk, ForwardedReply, Via, View, ViewRow
from phalanx.protocol.frames import FrameReader, encode_frame
from phalanx.protocol.framing import HEADER_BYTES
from phalanx.protocol.handshake import (
    CHALLENGE_BYTES,
    NONCE_BYTES,
    VERDICT_BYTES,
    ClientsHandshake,
    Role,
)
from phalanx.protocol.membership_messages import Expelled, Join, Joined, Reported
from phalanx.protocol.messages import PROTOCOL_VERSION, Hello
from phalanx.protocol.requests.queues import CreateQueue, QueueFields
from phalanx.protocol.requests.request import encode_request
from phalanx.runtime.daemons.personal_token import PersonalToken
from phalanx.runtime.daemons.remote import exactly

JOINED = (Joined, View)


class Second(Machine):
    """Another machine, which has the key of its node and no other secret of the cluster."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self.head = address
        self.key = os.path.join(self.directory, "key")

    def join_as(self, name: str, code: int = 0) -> str:
        """Start a node of this name with the key."""
        words = ("--address", self.head, "--node-name", name, "--num-cpus", "1", "--num-gpus", "0")
        more = ("--labels", f"name={name}", "--token-file", self.key)
        done = self.phalanx("start", *words, *more)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.fixture
def second(machine: Machine) -> Iterator[Second]:
    made = Second(machine.start_head())
    machine.done("token", "create", "m2", "--role", "node", "--file", made.key)
    yield made
    made.end()


def dialled(address: str, key: PersonalToken, role: Role) -> socket.socket | None:
    """Connect to the head's gateway with this key; return the socket, or None if the key is
    refused.
    """
    host, _, port = address.rpartition(":")
    sock = socket.create_connection((host, int(port)), 60)
    nonce = os.urandom(NONCE_BYTES)
    side = ClientsHandshake(key.id.encode(), key.secret, nonce=nonce, role=role)
    sock.sendall(side.hello)
    sock.sendall(side.proof(exactly(sock, CHALLENGE_BYTES)))
    if exactly(sock, VERDICT_BYTES)[0]:
        sock.close()
        return None
    return sock


def answers(sock: socket.socket, *messages: Any) -> list[Any]:
    """Send messages as a node; return the head's first answers, or [] if the head closes the
    connection.
    """
    sock.settimeout(60)
    for message in messages:
        sock.sendall(encode_frame([message]))
    reader = FrameReader()
    while data := sock.recv(1 << 16):
        if found := reader.feed(data):
            return found
    return []


def forwarded(origin: bytes, principal: Principal | None) -> ForwardedAsk:
    request = CreateQueue("stolen", QueueFields())
    body = msgspec.Raw(encode_request(request))
    return ForwardedAsk(1, origin, request.kind, body, principal=principal)


def test_a_node_with_a_key_runs_jobs_and_nothing_else(machine: Machine, second: Second) -> None:
    second.join_as("m2")
    eventually(lambda: "m2" in machine.nodes())
    machine.done("drain", machine.nodes()["first"]["node_id"])
    machine.done("run", "--name", "there", "--", "sh", "-c", "echo from-there")
    assert machine.done("logs", "there") == "from-there\n"
    refused = second.phalanx("jobs", "--address", second.head)
    assert refused.returncode and "joins as m2 and reports, and nothing else" in refused.stderr
    (row,) = json.loads(machine.done("token", "list", "--json"))
    assert (row["name"], row["role"]) == ("m2", "node") and row["last_used"] > 0
    denied = json.loads(machine.done("audit", "--denied", "--json"))
    assert denied[-1]["verb"] == "join" and "nothing else" in denied[-1]["why"]
    machine.done("token", "rotate", "m2", "--file", second.key)
    assert machine.nodes()["m2"]["state"] == "ALIVE", "both secrets are valid"
    machine.done("token", "revoke", "m2")
    eventually(lambda: machine.nodes()["m2"]["state"] != "ALIVE", "the end of a revoked node")


def test_a_key_is_pinned_to_its_name(machine: Machine, second: Second) -> None:
    said = second.join_as("m3", code=1)
    assert "m2" in said
    assert set(machine.nodes()) == {"first"}
    other = Machine()
    try:
        words = ("--address", second.head, "--node-name", "m2", "--num-cpus", "1")
        token = os.path.join(machine.home, ".phalanx", "token")
        taken = other.phalanx("start", *words, "--token-file", token)
        assert taken.returncode and "a key of its own" in taken.stdout + taken.stderr
    finally:
        other.end()
    assert set(machine.nodes()) == {"first"}


def test_a_key_opens_nothing_else(machine: Machine, second: Second) -> None:
    key = secret_of(second.key)
    assert dialled(second.head, key, Role.CLIENT) is None, "it is no token of a person"
    asking = second.phalanx("jobs", PHALANX_ADDRESS=second.head, PHALANX_TOKEN_FILE=second.key)
    assert asking.returncode == 4
    machine.done("token", "create", "ana", "--role", "admin", "--file", second.key + ".ana")
    assert dialled(second.head, secret_of(second.key + ".ana"), Role.NODE_KEY) is None
    wrong = PersonalToken(key.id, os.urandom(32))
    assert dialled(second.head, wrong, Role.NODE_KEY) is None


def test_a_taken_over_node_speaks_for_nobody(machine: Machine, second: Second) -> None:
    admin = Principal(UNIX, "root", "root", (), is_owner=True)
    node_id = "ab" * 28
    mine, first = node_prefix(node_id), node_prefix(machine.nodes()["first"]["node_id"])
    hello = Hello(PROTOCOL_VERSION, mine + bytes(10), "node", 1)

    def joining(name: str, prefix: bytes = mine) -> Join:
        row = ViewRow(node_id, prefix, "127.0.0.1", 7, "ALIVE", {"CPU": 1.0}, {"CPU": 1.0}, {})
        return Join(row, name, 0, {}, BundleInventory([], {}), given_up=[first], name=name)

    def said(*messages: Any) -> list[Any]:
        sock = dialled(second.head, secret_of(second.key), Role.NODE_KEY)
        assert sock is not None
        with sock:
            return answers(sock, *messages)

    for name, prefix in (("m3", mine), ("first", mine), ("m2", first)):
        (expelled,) = said(hello, joining(name, prefix))
        assert isinstance(expelled, Expelled) and "nothing else" in expelled.reason
    through = encode_frame([forwarded(b"", admin)])[HEADER_BYTES:]
    for message in (
        forwarded(b"", admin),
        forwarded(mine + b"x" * 10, None),
        forwarded(mine + bytes(10), None),
        forwarded(mine + bytes(10), admin),
    ):
        for before in ([], [Via(first + b"x" * 10, through)], [Reported(2, through)]):
            told = said(hello, joining("m2"), *before, message)
            replies = [one for one in told if isinstance(one, ForwardedReply)]
            assert all(isinstance(one, JOINED) for one in told if one not in replies), told
            assert [one.error is not None for one in replies] in ([], [True])
    for messages in (
        [Hello(PROTOCOL_VERSION, first + bytes(10), "node", 1), forwarded(b"", admin)],
        [Ask(1, CreateQueue.kind, encode_request(CreateQueue("stolen", QueueFields())))],
        [forwarded(b"", admin)],
    ):
        assert said(*messages) == [], messages
    rows = json.loads(machine.done("audit", "--denied", "--json"))
    assert {row["what"] for row in rows} >= {"Join", "ForwardedAsk", "Via", "Reported"}
    assert machine.nodes()["first"]["state"] == "ALIVE"
    assert "stolen" not in machine.done("queue", "list")
