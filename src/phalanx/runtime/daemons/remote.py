"""Requests to a head on another machine, with the token of a person or robot.

The connection uses TLS, except on loopback. No authority signs the head's certificate: its
fingerprint is part of both proofs (`protocol.handshake`), so only a head that knows the token can
answer.
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
import socket
import ssl
import time
from typing import TypeVar

from phalanx.errors import AuthenticationError, MessageTooLargeError, ProtocolError
from phalanx.protocol.asking import Ask, Reply
from phalanx.protocol.frames import FrameReader, encode_frame
from phalanx.protocol.framing import STRANGERS_FRAME_BYTES
from phalanx.protocol.handshake import (
    CHALLENGE_BYTES,
    NO_BINDING,
    NONCE_BYTES,
    VERDICT_BYTES,
    ClientsHandshake,
    Status,
)
from phalanx.protocol.requests.request import Request, encode_request, read_result
from phalanx.runtime.daemons.personal_token import PersonalToken

R = TypeVar("R")

_PART_BYTES = 1 << 16
_REQUEST_BYTES = STRANGERS_FRAME_BYTES - 100


def ask_remote(address: str, token: PersonalToken, request: Request[R], timeout_s: float) -> R:
    """Return the answer of the head at HOST:PORT to one request.

    Raises ConnectionError if the head cannot be reached, AuthenticationError if it does not know
    the token, TimeoutError, and any error with which the head answers.
    """
    body = encode_request(request)
    if len(body) > _REQUEST_BYTES:
        raise MessageTooLargeError(
            f"{type(request).__name__} is too large: it has {len(body)} bytes, and the limit of a "
            f"command's request is {_REQUEST_BYTES}."
        )
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + timeout_s
    try:
        with _connected(host.strip("[]"), int(port), token, timeout_s) as sock:
            sock.sendall(encode_frame([Ask(1, request.kind, body)]))
            reply = _reply(sock, address, deadline)
    except TimeoutError:
        raise TimeoutError(f"the head at {address} did not answer within {timeout_s:g} s") from None
    except (OSError, ProtocolError) as error:
        raise ConnectionError(f"the head at {address} cannot be reached: {error}") from None
    return read_result(request, reply.result, reply.error)


def _connected(host: str, port: int, token: PersonalToken, timeout_s: float) -> socket.socket:
    """Return a connection on which both sides have proved that they know the token."""
    sock = socket.create_connection((host, port), timeout_s)
    try:
        binding = NO_BINDING
        if not ipaddress.ip_address(sock.getpeername()[0]).is_loopback:
            wrapped = _tls().wrap_socket(sock)
            certificate = wrapped.getpeercert(binary_form=True) or b""
            sock, binding = wrapped, hashlib.sha256(certificate).digest()
        side = ClientsHandshake(token.id.encode(), token.secret, nonce=os.urandom(NONCE_BYTES))
        sock.sendall(side.hello)
        sock.sendall(side.proof(_exactly(sock, CHALLENGE_BYTES), binding))
        try:
            status = side.finish(_exactly(sock, VERDICT_BYTES))
        except AuthenticationError:
            raise AuthenticationError(
                f"the head at {host}:{port} does not know this token: it was revoked, or belongs "
                "to another cluster."
            ) from None
        if status is not Status.OK:
            raise ConnectionError(f"a node listens there, not a head ({status.name})")
    except BaseException:
        sock.close()
        raise
    return sock


def _tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = sock.recv(size - len(data))
        if not part:
            raise ConnectionError("it hung up during the handshake")
        data += part
    return data


def _reply(sock: socket.socket, address: str, deadline: float) -> Reply:
    reader = FrameReader()
    while True:
        sock.settimeout(max(deadline - time.monotonic(), 0.001))
        data = sock.recv(_PART_BYTES)
        if not data:
            raise ConnectionError("it hung up before it answered")
        for message in reader.feed(data):
            if isinstance(message, Reply):
                return message
