"""The handshake in which two gateways prove to each other that they hold the cluster's token.

Four messages of fixed size come before all others; the token itself is never sent:

    dialler                                         gateway
    hello      magic, version, role, nonce, target  →
                         ←  magic, version, status, nonce   challenge
    proof      HMAC(token, "dialler", transcript)   →
                         ←  status, HMAC(token, "gateway", transcript, status)   verdict

The transcript is hello and challenge as sent, and the channel binding. Under TLS the binding is the
SHA-256 of the server's certificate as each side sees it (RFC 5929, tls-server-end-point). So a man
in the middle with a different certificate makes both proofs fail, and no authority is needed. Both
nonces are fresh, so a recorded handshake proves nothing. The dialler proves first: a stranger gets
no HMAC.

A gateway lets in only its own version of the protocol. But every version answers a knock. With
these same four messages, a node of another version proves that it lives, and learns what happens to
its work.

Nothing here reads a clock, a socket or a random source; the caller passes the nonces.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import struct
from collections.abc import Iterable, Sequence

import msgspec

from phalanx.errors import AuthenticationError, ProtocolError
from phalanx.protocol.messages import PROTOCOL_VERSION

MAGIC = b"PHLX"
NONCE_BYTES = 32
TARGET_BYTES = 16
NO_BINDING = b"\x00" * 32
"""The channel binding of a connection without TLS."""

_HELLO = struct.Struct(f"!4sHBx{NONCE_BYTES}s{TARGET_BYTES}s")
_CHALLENGE = struct.Struct(f"!4sHBx{NONCE_BYTES}s")
_VERDICT = struct.Struct("!B32s")
HELLO_BYTES = _HELLO.size
CHALLENGE_BYTES = _CHALLENGE.size
PROOF_BYTES = 32
VERDICT_BYTES = _VERDICT.size
_NOTHING = b"\x00" * PROOF_BYTES


class Role(enum.IntEnum):
    """The purpose for which a peer connects to a gateway."""

    DIAL = 1
    """Connect to a process of the gateway's node; the target is the process's id."""
    TRANSFER = 2
    """Transfer the bytes of objects that are on the gateway's node."""
    KNOCK = 3
    """Report that the dialler lives and speaks another version of the protocol; the target is the
    dialler's own id.
    """
    CLIENT = 4
    """Send requests to the head with the token of a person or robot; the target is the token's
    id.
    """
    NODE_KEY = 5
    """Join the head as a node with a key of its own; the target is the id of the key."""
    CLIENT_DRIVER = 6
    """Connect a client with its driver on the cluster, with the token of a person or robot; the
    target is the token's id.
    """


class Status(enum.IntEnum):
    """The outcome of a handshake, as a peer learns it.

    Gateways send each other the first five values and the last one; the gate sends all values to
    processes.
    """

    OK = 0
    WRONG_TOKEN = 1
    WRONG_VERSION = 2
    NO_PROCESS = 3
    TLS_WANTED = 4
    NO_NODE = 5
    UNREACHABLE = 6
    BUSY = 7
    GIVEN_UP = 8
    """The head has declared the node dead; the node's work runs elsewhere, or will run there."""


class OtherVersionError(ProtocolError):
    """The peer is a gateway of another version of the protocol."""


class ClientHello(msgspec.Struct, frozen=True):
    """The first message of the dialling side."""

    version: int
    role: Role
    nonce: bytes
    target: bytes
    raw: bytes


def read_hello(raw: bytes) -> ClientHello:
    """Return a dialler's first message. Raises ProtocolError for any other bytes.

    In all versions, this message has the same size, and magic and version have the same places in
    it. So a gateway can report its own version to a newer dialler.
    """
    if len(raw) != HELLO_BYTES:
        raise ProtocolError(f"a hello has {HELLO_BYTES} bytes, not {len(raw)}")
    magic, version, role, nonce, target = _HELLO.unpack(raw)
    if magic != MAGIC:
        raise ProtocolError("the dialler is no Phalanx gateway: its first bytes are not a hello")
    try:
        return ClientHello(version, Role(role), nonce, target, raw)
    except ValueError:
        raise ProtocolError(f"a hello with the role {role}, which does not exist") from None


def challenge(nonce: bytes, status: Status = Status.OK, version: int = PROTOCOL_VERSION) -> bytes:
    """Return the gateway's answer to a hello. A `status` other than OK is a refusal."""
    return _CHALLENGE.pack(MAGIC, version, status, nonce)


class DiallersHandshake:
    """The handshake of the side that connects: call `hello`, then `proof` for the challenge, then
    `finish` with the verdict.
    """

    def __init__(
        self,
        token: bytes,
        *,
        role: Role,
        target: bytes,
        nonce: bytes,
        version: int = PROTOCOL_VERSION,
    ) -> None:
        assert len(nonce) == NONCE_BYTES and len(target) == TARGET_BYTES
        self._token = token
        self._version = version
        self._role = role
        self._transcript = b""
        self.their_version = version
        """The version that the gateway speaks; `proof` sets it."""
        self.hello = _HELLO.pack(MAGIC, version, role, nonce, target)

    def proof(self, raw_challenge: bytes, binding: bytes = NO_BINDING) -> bytes:
        """Return the answer to the gateway's challenge.

        Raises ProtocolError when the peer is no gateway or wants TLS, and OtherVersionError when
        the peer speaks another version and the handshake is no knock.
        """
        if len(raw_challenge) != CHALLENGE_BYTES or not raw_challenge.startswith(MAGIC):
            raise ProtocolError("the server there is no Phalanx gateway")
        _, version, status, _ = _CHALLENGE.unpack(raw_challenge)
        if status == Status.TLS_WANTED:
            raise ProtocolError(
                "it accepts only TLS, and this node dials without TLS (insecure=True)"
            )
        self.their_version = version
        is_admitted = version == self._version or self._role is Role.KNOCK
        if not is_admitted or status != Status.OK:
            raise OtherVersionError(
                f"it speaks version {version} of the protocol and this node version "
                f"{self._version}; install the same release of phalanx on both"
            )
        self._transcript = self.hello + raw_challenge + binding
        return _prove(self._token, b"dialler", self._transcript)

    def finish(self, verdict: bytes) -> Status:
        """Return the gateway's decision.

        Raises AuthenticationError when the gateway refused the proof, or gave no proof of its own.
        """
        if len(verdict) != VERDICT_BYTES:
            raise ProtocolError(f"a verdict has {VERDICT_BYTES} bytes, not {len(verdict)}")
        status, theirs = _VERDICT.unpack(verdict)
        if status == Status.WRONG_TOKEN:
            raise AuthenticationError("it refused this node's token")
        expected = _prove(self._token, b"gateway", self._transcript + verdict[:1])
        if not hmac.compare_digest(expected, theirs):
            raise AuthenticationError("it does not hold this node's token")
        try:
            return Status(status)
        except ValueError:
            raise ProtocolError(f"a verdict with the status {status}, not known here") from None


class GatewaysHandshake:
    """The gateway's side of the handshake, after a knock or after a hello of the gateway's own
    version.
    """

    def __init__(
        self,
        tokens: Sequence[bytes],
        hello: ClientHello,
        *,
        nonce: bytes,
        binding: bytes = NO_BINDING,
    ) -> None:
        """Set up the handshake; the dialler may hold any of the cluster's `tokens`."""
        assert len(nonce) == NONCE_BYTES
        self._tokens = tokens
        self._token = _NOTHING
        """The token that the dialler has proved to hold."""
        self.challenge = challenge(nonce)
        self._transcript = hello.raw + self.challenge + binding

    def check(self, proof: bytes) -> None:
        """Raise AuthenticationError unless the dialler holds one of the tokens."""
        for token in self._tokens:
            expected = _prove(token, b"dialler", self._transcript)
            if hmac.compare_digest(expected, proof):
                self._token = token
                return
        raise AuthenticationError("the dialler's token is not this cluster's")

    def verdict(self, status: Status) -> bytes:
        """Return the last message to a dialler with a right proof."""
        proof = _prove(self._token, b"gateway", self._transcript + bytes([status]))
        return _VERDICT.pack(status, proof)


class ClientsHandshake(DiallersHandshake):
    """The handshake of a person, robot or node that has the secret of a token of its own.

    The head keeps only the secret's hash. Both sides use the hash as their key. The proof is the
    secret, encrypted with a pad that is computed from the key and the transcript. A gateway that
    has the hash can remove the pad and check the secret's hash. Somebody who has only the hash
    cannot make a proof.
    """

    def __init__(
        self, token_id: bytes, secret: bytes, *, nonce: bytes, role: Role = Role.CLIENT
    ) -> None:
        key = hashlib.sha256(secret).digest()
        super().__init__(key, role=role, target=token_id, nonce=nonce)
        self._secret = secret

    def proof(self, raw_challenge: bytes, binding: bytes = NO_BINDING) -> bytes:
        """Return the answer to the gateway's challenge. Raises the same errors as a dialler's
        `proof`.
        """
        return _xor(self._secret, super().proof(raw_challenge, binding))


class ClientAtGateway(GatewaysHandshake):
    """The gateway's side of the handshake with a person, robot or node that holds a token of its
    own. `keys` are the token's present hashes.
    """

    def __init__(
        self,
        keys: Iterable[bytes],
        hello: ClientHello,
        *,
        nonce: bytes,
        binding: bytes = NO_BINDING,
    ) -> None:
        super().__init__((), hello, nonce=nonce, binding=binding)
        self._keys = tuple(keys)

    def check(self, proof: bytes) -> None:
        """Raise AuthenticationError unless the client holds the secret of one of the hashes."""
        for key in self._keys:
            secret = _xor(proof, _prove(key, b"dialler", self._transcript))
            if hmac.compare_digest(hashlib.sha256(secret).digest(), key):
                self._token = key
                return
        raise AuthenticationError("no such token")


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def refused_verdict() -> bytes:
    """Return the last message to a dialler whose proof was wrong. The message contains no proof of
    the gateway.
    """
    return _VERDICT.pack(Status.WRONG_TOKEN, _NOTHING)


def _prove(token: bytes, who: bytes, transcript: bytes) -> bytes:
    return hmac.digest(token, b"phalanx " + who + b"\x00" + transcript, hashlib.sha256)
