"""Requests to a head on another machine, with the token of a person or robot.

The connection uses TLS, except on loopback. The fingerprint of the head's certificate is part of
both proofs (`protocol.handshake`), so only a head that knows the token can answer. A login also
says which certificate the head must show (`trust`).
"""

from __future__ import annotations

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
    Role,
    Status,
)
from phalanx.protocol.requests.request import Request, encode_request, read_result
from phalanx.runtime.daemons.personal_token import PersonalToken
from phalanx.runtime.daemons.trust import Trust

R = TypeVar("R")

_PART_BYTES = 1 << 16
_REQUEST_BYTES = STRANGERS_FRAME_BYTES - 100
ANY = Trust()


def ask_remote(
    address: str,
    token: PersonalToken,
    request: Request[R],
    timeout_s: float,
    trust: Trust = ANY,
) -> R:
    """Return the answer of the head at HOST:PORT to one request.

    Raises ConnectionError if the head cannot be reached, AuthenticationError if it does not know
    the token or shows a certificate that is not trusted, TimeoutError, and any error with which the
    head answers.
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
        with connected(host.strip("[]"), int(port), token, timeout_s, trust) as sock:
            sock.sendall(encode_frame([Ask(1, request.kind, body)]))
            reply = _reply(sock, address, deadline)
    except TimeoutError:
        raise TimeoutError(f"the head at {address} did not answer within {timeout_s:g} s") from None
    except (OSError, ProtocolError) as error:
        raise ConnectionError(f"the head at {address} cannot be reached: {error}") from None
    return read_result(request, reply.result, reply.error)


def connected(
    host: str,
    port: int,
    token: PersonalToken,
    timeout_s: float,
    trust: Trust = ANY,
    role: Role = Role.CLIENT,
) -> socket.socket:
    """Return a connection on which both sides have proved that they know the token. `role`: the
    purpose of the connection.

    Raises AuthenticationError, ConnectionError and OSError.
    """
    sock, binding = _opened(host, port, timeout_s, trust)
    try:
        nonce = os.urandom(NONCE_BYTES)
        side = ClientsHandshake(token.id.encode(), token.secret, nonce=nonce, role=role)
        sock.sendall(side.hello)
        sock.sendall(side.proof(exactly(sock, CHALLENGE_BYTES), binding))
        try:
            status = side.finish(exactly(sock, VERDICT_BYTES))
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


def fingerprint_at(address: str, timeout_s: float, trust: Trust = ANY) -> str:
    """Return the fingerprint of the certificate that the head at HOST:PORT shows, in hex; "" on
    loopback, where there is no TLS.

    Raises ConnectionError if it cannot be reached there, and AuthenticationError if its certificate
    is not trusted.
    """
    host, _, port = address.rpartition(":")
    try:
        sock, binding = _opened(host.strip("[]"), int(port), timeout_s, trust)
    except (TimeoutError, OSError) as error:
        raise ConnectionError(f"the head at {address} cannot be reached: {error}") from None
    sock.close()
    return "" if binding == NO_BINDING else binding.hex()


def _opened(host: str, port: int, timeout_s: float, trust: Trust) -> tuple[socket.socket, bytes]:
    """Return a connection, and the channel binding of the certificate that the head has shown;
    NO_BINDING on loopback, where there is no TLS. Raises AuthenticationError and OSError.
    """
    sock = socket.create_connection((host, port), timeout_s)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if ipaddress.ip_address(sock.getpeername()[0]).is_loopback:
            return sock, NO_BINDING
        name = host if trust.ca else None
        try:
            wrapped = trust.context().wrap_socket(sock, server_hostname=name)
        except ssl.SSLCertVerificationError as error:
            raise AuthenticationError(
                f"the certificate of {host}:{port} is not from an authority in {trust.ca}: "
                f"{error.verify_message}"
            ) from None
        sock = wrapped
        certificate = wrapped.getpeercert(binary_form=True) or b""
        return wrapped, trust.binding(certificate, f"{host}:{port}")
    except BaseException:
        sock.close()
        raise


def exactly(sock: socket.socket, size: int) -> bytes:
    """Return exactly this number of bytes of a socket. Raises ConnectionError at the end of the
    stream.
    """
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
