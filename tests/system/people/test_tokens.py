"""Commands with a token, as on another machine, where they find no daemon and no other secret."""

from __future__ import annotations

import json
import os
import socket
import stat

import pytest
from tests.system.cli.conftest import Machine

from phalanx.protocol.asking import Ask, Reply
from phalanx.protocol.frames import FrameReader, encode_frame
from phalanx.protocol.requests.jobs import ListJobs
from phalanx.protocol.requests.request import encode_request
from phalanx.runtime.daemons.personal_token import PersonalToken, parse
from phalanx.runtime.daemons.remote import connected


class Laptop(Machine):
    """A machine without a daemon."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self.token = os.path.join(self.directory, "token")
        self.env |= {"PHALANX_ADDRESS": address, "PHALANX_TOKEN_FILE": self.token}


@pytest.fixture
def laptop(machine: Machine):
    address = machine.start_head()
    made = Laptop(address)
    yield made
    made.end()


def secret_of(path: str) -> PersonalToken:
    with open(path) as file:
        token = parse(file.read())
    assert token is not None
    return token


def test_a_token_submits_and_does_no_more_than_its_role(machine: Machine, laptop: Laptop) -> None:
    machine.done("token", "create", "ci", "--expires", "90d", "--file", laptop.token)
    assert stat.S_IMODE(os.stat(laptop.token).st_mode) == 0o600
    assert laptop.done("run", "--name", "far", "--", "echo", "hello") == "hello\n"
    assert machine.jobs()["far"]["user"] == "ci"
    refused = laptop.phalanx("queue", "create", "lab")
    assert refused.returncode == 4 and "token:ci may not administer queue lab" in refused.stderr
    (row,) = json.loads(machine.done("token", "list", "--json"))
    assert row["name"] == "ci" and row["role"] == "user" and row["last_used"] > 0
    rows = json.loads(machine.done("audit", "--json", "token:ci"))
    assert rows[0]["origin"].startswith("127.0.0.1:")
    text = secret_of(laptop.token)
    store = os.path.join(machine.home, ".phalanx", "store")
    for name in os.listdir(store):
        with open(os.path.join(store, name), "rb") as file:
            found = file.read()
        assert text.secret not in found and str(text).encode() not in found, name


def test_a_rotated_token_is_valid_twice_and_a_revoked_one_at_no_time(
    machine: Machine, laptop: Laptop
) -> None:
    first = laptop.token + ".first"
    machine.done("token", "create", "ana", "--file", first)
    machine.done("token", "rotate", "ana", "--file", laptop.token)
    laptop.done("jobs")
    laptop.done("jobs", PHALANX_TOKEN_FILE=first)
    host, _, port = laptop.env["PHALANX_ADDRESS"].rpartition(":")
    live = connected(host, int(port), secret_of(laptop.token), 30.0)
    with live:
        live.sendall(encode_frame([Ask(1, ListJobs.kind, encode_request(ListJobs()))]))
        replies = FrameReader()
        while not (got := replies.feed(live.recv(1 << 16))):
            pass
        assert isinstance(got[0], Reply)
        machine.done("token", "rotate", "ana")
        assert laptop.phalanx("jobs", PHALANX_TOKEN_FILE=first).returncode == 4
        laptop.done("jobs")
        machine.done("token", "revoke", "ana")
        live.settimeout(60)
        assert live.recv(1) == b"", "the connection ends with the token"
    refused = laptop.phalanx("jobs")
    assert refused.returncode == 4 and "does not know this token" in refused.stderr


def test_only_requests_come_in_with_a_token(machine: Machine, laptop: Laptop) -> None:
    from phalanx.protocol.messages import PROTOCOL_VERSION, Hello

    machine.done("token", "create", "ana", "--file", laptop.token)
    host, _, port = laptop.env["PHALANX_ADDRESS"].rpartition(":")
    with connected(host, int(port), secret_of(laptop.token), 30.0) as live:
        live.sendall(encode_frame([Hello(PROTOCOL_VERSION, bytes(16), "node", 1)]))
        live.settimeout(60)
        assert live.recv(1) == b""


def test_the_token_is_refused_where_others_can_read_it(machine: Machine, laptop: Laptop) -> None:
    machine.done("token", "create", "ana", "--file", laptop.token)
    os.chmod(laptop.token, 0o644)
    refused = laptop.phalanx("jobs")
    assert refused.returncode != 0 and "open to other users" in refused.stderr
    assert socket.gethostname() not in refused.stdout
