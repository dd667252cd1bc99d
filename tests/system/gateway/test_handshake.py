"""The handshake as bytes: what is accepted, what is refused, and which errors can occur."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.errors import AuthenticationError, ProtocolError
from phalanx.protocol.handshake import (
    CHALLENGE_BYTES,
    HELLO_BYTES,
    NO_BINDING,
    PROOF_BYTES,
    VERDICT_BYTES,
    DiallersHandshake,
    GatewaysHandshake,
    Role,
    Status,
    challenge,
    read_hello,
    refused_verdict,
)
from phalanx.protocol.messages import PROTOCOL_VERSION

TOKEN, OTHER = b"t" * 32, b"o" * 32
TARGET = bytes(range(16))
ONE, TWO = b"1" * 32, b"2" * 32


def dialler(token=TOKEN, **changes):
    fields = {"role": Role.DIAL, "target": TARGET, "nonce": ONE, **changes}
    return DiallersHandshake(token, **fields)


def gateway(hello, token=TOKEN, nonce=TWO, binding=NO_BINDING):
    return GatewaysHandshake([token], read_hello(hello), nonce=nonce, binding=binding)


def test_both_hold_the_token():
    side = dialler()
    other = gateway(side.hello)
    proof = side.proof(other.challenge)
    other.check(proof)
    for status in (Status.OK, Status.NO_PROCESS):
        assert side.finish(other.verdict(status)) is status
    hello = read_hello(side.hello)
    assert (hello.role, hello.target, hello.version) == (Role.DIAL, TARGET, PROTOCOL_VERSION)
    sizes = [len(b) for b in (side.hello, other.challenge, proof, other.verdict(Status.OK))]
    assert sizes == [HELLO_BYTES, CHALLENGE_BYTES, PROOF_BYTES, VERDICT_BYTES]
    assert HELLO_BYTES <= 64
    assert TOKEN not in side.hello + other.challenge + proof + other.verdict(Status.OK)


@pytest.mark.parametrize("token", [TOKEN, OTHER])
def test_two_tokens_are_valid_while_the_token_is_rotated(token):
    side = dialler(token)
    other = GatewaysHandshake([TOKEN, OTHER], read_hello(side.hello), nonce=TWO)
    other.check(side.proof(other.challenge))
    assert side.finish(other.verdict(Status.OK)) is Status.OK
    third = dialler(b"x" * 32)
    with pytest.raises(AuthenticationError):
        other.check(third.proof(other.challenge))


def test_a_dialler_with_another_token_is_refused():
    side = dialler(OTHER)
    other = gateway(side.hello)
    with pytest.raises(AuthenticationError):
        other.check(side.proof(other.challenge))
    with pytest.raises(AuthenticationError, match="refused"):
        side.finish(refused_verdict())


def test_a_gateway_with_another_token_is_not_trusted():
    side = dialler()
    other = gateway(side.hello, OTHER)
    side.proof(other.challenge)
    with pytest.raises(AuthenticationError, match="does not hold"):
        side.finish(other.verdict(Status.OK))


@pytest.mark.parametrize(
    "changes", [{"role": Role.TRANSFER}, {"target": bytes(16)}, {"nonce": TWO}], ids=str
)
def test_a_proof_is_for_this_hello(changes):
    side, altered = dialler(), dialler(**changes)
    other = gateway(altered.hello)
    with pytest.raises(AuthenticationError):
        other.check(side.proof(other.challenge))


def test_a_recorded_handshake_proves_nothing():
    side = dialler()
    recorded = side.proof(gateway(side.hello).challenge)
    with pytest.raises(AuthenticationError):
        gateway(side.hello, nonce=b"3" * 32).check(recorded)
    again = dialler(nonce=b"4" * 32)
    verdict = gateway(side.hello).verdict(Status.OK)
    again.proof(gateway(again.hello).challenge)
    with pytest.raises(AuthenticationError):
        again.finish(verdict)


def test_each_certificate_has_its_own_proofs():
    side = dialler()
    other = gateway(side.hello, binding=b"a" * 32)
    with pytest.raises(AuthenticationError):
        other.check(side.proof(other.challenge, b"b" * 32))
    with pytest.raises(AuthenticationError):
        other.check(side.proof(other.challenge))
    other.check(side.proof(other.challenge, b"a" * 32))


def test_a_proof_sent_back_is_no_verdict():
    side = dialler()
    proof = side.proof(gateway(side.hello).challenge)
    with pytest.raises(AuthenticationError):
        side.finish(bytes([Status.OK]) + proof)


def test_a_status_cannot_be_exchanged():
    side = dialler()
    other = gateway(side.hello)
    side.proof(other.challenge)
    with pytest.raises(AuthenticationError):
        side.finish(bytes([Status.OK]) + other.verdict(Status.NO_PROCESS)[1:])


def test_another_version_is_named():
    side = dialler(version=99)
    assert read_hello(side.hello).version == 99
    with pytest.raises(ProtocolError, match=f"version {PROTOCOL_VERSION} .* version 99"):
        side.proof(challenge(TWO, Status.WRONG_VERSION))
    with pytest.raises(ProtocolError, match="accepts only TLS"):
        dialler().proof(challenge(TWO, Status.TLS_WANTED))


@pytest.mark.parametrize("newer", ["dialler", "gateway"])
def test_a_knock_is_proven_between_versions(newer):
    """Each side learns the version of the other side, which is older or newer."""
    theirs = PROTOCOL_VERSION + 1
    side = dialler(role=Role.KNOCK, version=theirs if newer == "dialler" else PROTOCOL_VERSION)
    hello = read_hello(side.hello)
    other = GatewaysHandshake([TOKEN], hello, nonce=TWO)
    if newer == "gateway":
        other.challenge = challenge(TWO, version=theirs)
        other._transcript = side.hello + other.challenge + NO_BINDING
    other.check(side.proof(other.challenge))
    assert {side.their_version, hello.version} == {PROTOCOL_VERSION, theirs}
    for status in (Status.OK, Status.WRONG_VERSION, Status.GIVEN_UP):
        assert side.finish(other.verdict(status)) is status


def test_a_knock_without_the_token_proves_nothing():
    side = dialler(OTHER, role=Role.KNOCK, version=PROTOCOL_VERSION + 1)
    other = gateway(side.hello)
    with pytest.raises(AuthenticationError):
        other.check(side.proof(other.challenge))
    forged = dialler(role=Role.KNOCK, version=PROTOCOL_VERSION + 1)
    stranger = gateway(forged.hello, OTHER)
    forged.proof(stranger.challenge)
    with pytest.raises(AuthenticationError):
        forged.finish(stranger.verdict(Status.GIVEN_UP))


@given(st.binary(max_size=100) | st.binary(max_size=60).map(lambda b: b"PHLX" + b))
def test_garbage_is_refused_with_a_protocol_error(raw):
    for read in (read_hello, dialler().proof):
        try:
            read(raw)
        except ProtocolError:
            continue
    side = dialler()
    side.proof(challenge(TWO))
    with pytest.raises((ProtocolError, AuthenticationError)):
        side.finish(raw)


@given(st.binary(min_size=32, max_size=32), st.integers(0, 31))
def test_any_altered_bit_of_a_proof_fails(nonce, at):
    side = dialler(nonce=nonce)
    other = gateway(side.hello)
    proof = side.proof(other.challenge)
    with pytest.raises(AuthenticationError):
        other.check(proof[:at] + bytes([proof[at] ^ 4]) + proof[at + 1 :])
