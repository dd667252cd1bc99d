"""How a client proves that it has a person's or robot's token, of which the head knows only a
hash.
"""

from __future__ import annotations

import hashlib

import pytest

from phalanx.errors import AuthenticationError
from phalanx.protocol.handshake import (
    ClientAtGateway,
    ClientsHandshake,
    DiallersHandshake,
    Role,
    Status,
    read_hello,
    refused_verdict,
)

ID = b"0123456789abcdef"
SECRET, OTHER = bytes(range(32)), bytes(range(1, 33))
NONCE, THEIRS = b"\x01" * 32, b"\x02" * 32


def key(secret: bytes) -> bytes:
    return hashlib.sha256(secret).digest()


def meet(
    secret: bytes, keys: list[bytes], binding: bytes = b"\x03" * 32, theirs: bytes = b"\x03" * 32
) -> Status:
    client = ClientsHandshake(ID, secret, nonce=NONCE)
    hello = read_hello(client.hello)
    assert hello.role is Role.CLIENT and hello.target == ID
    gateway = ClientAtGateway(keys, hello, nonce=THEIRS, binding=theirs)
    gateway.check(client.proof(gateway.challenge, binding))
    return client.finish(gateway.verdict(Status.OK))


@pytest.mark.parametrize("keys", [[key(SECRET)], [key(OTHER), key(SECRET)]])
def test_the_holder_of_a_secret_is_let_in(keys: list[bytes]) -> None:
    assert meet(SECRET, keys) is Status.OK


@pytest.mark.parametrize("keys", [[], [key(OTHER)], [SECRET]])
def test_others_are_not(keys: list[bytes]) -> None:
    with pytest.raises(AuthenticationError, match="no such token"):
        meet(SECRET, keys)


def test_a_man_in_the_middle_shows_another_certificate() -> None:
    with pytest.raises(AuthenticationError):
        meet(SECRET, [key(SECRET)], theirs=b"\x04" * 32)


def test_the_hash_alone_makes_no_proof() -> None:
    """A reader of the store knows the hash. It dials with the hash, as a node does with its
    token.
    """
    thief = DiallersHandshake(key(SECRET), role=Role.CLIENT, target=ID, nonce=NONCE)
    gateway = ClientAtGateway([key(SECRET)], read_hello(thief.hello), nonce=THEIRS)
    with pytest.raises(AuthenticationError):
        gateway.check(thief.proof(gateway.challenge))


def test_a_recorded_proof_is_worth_nothing_later() -> None:
    client = ClientsHandshake(ID, SECRET, nonce=NONCE)
    hello = read_hello(client.hello)
    first = ClientAtGateway([key(SECRET)], hello, nonce=THEIRS)
    proof = client.proof(first.challenge)
    first.check(proof)
    later = ClientAtGateway([key(SECRET)], hello, nonce=b"\x05" * 32)
    with pytest.raises(AuthenticationError):
        later.check(proof)


def test_a_gateway_that_does_not_know_the_token_is_found_out() -> None:
    client = ClientsHandshake(ID, SECRET, nonce=NONCE)
    gateway = ClientAtGateway([key(OTHER)], read_hello(client.hello), nonce=THEIRS)
    client.proof(gateway.challenge)
    with pytest.raises(AuthenticationError):
        client.finish(gateway.verdict(Status.OK))
    with pytest.raises(AuthenticationError):
        client.finish(refused_verdict())
