"""Requests to a daemon of this machine from a visitor.

A visitor is a process that is neither driver nor node, such as the command line. A visitor sends
one frame and reads one. This module imports only the two messages that it needs, because importing
all of them takes longer than most commands.
"""

from __future__ import annotations

import contextlib
import time
from _socket import AF_UNIX, SOCK_STREAM  # `import socket` is slow
from _socket import socket as Socket
from typing import NoReturn, TypeVar

import msgspec

from phalanx.errors import MessageTooLargeError, ProtocolError
from phalanx.model.raw_bytes import encoded
from phalanx.protocol.asking import Ask, Reply
from phalanx.protocol.framing import HEADER_BYTES, MAX_FRAME_BYTES, STRANGERS_FRAME_BYTES
from phalanx.protocol.requests.request import Request, encode_request, read_result
from phalanx.runtime.daemons.daemon_files import REMOTE, Announcement
from phalanx.runtime.os.peer_user import of_account
from phalanx.runtime.os.session import Session

R = TypeVar("R")

VISITORS_REQUEST_BYTES = STRANGERS_FRAME_BYTES - 100
"""The largest size, in bytes, of the request with which a visitor introduces itself."""


def ask_daemon(session: Session, daemon: Announcement, request: Request[R], timeout_s: float) -> R:
    """Return a head's answer to one request. `daemon` is the head, or a node that asks the head.

    Raises ConnectionError if the daemon has ended, TimeoutError if it does not answer, and any
    error with which the head answers.
    """
    if daemon.kind == REMOTE:
        # Imports TLS, which most commands do not need.
        from phalanx.runtime.daemons.credentials import credentials_of
        from phalanx.runtime.daemons.remote import ask_remote

        token, trust = credentials_of(daemon)
        return ask_remote(daemon.address, token, request, timeout_s, trust)
    who = f"the {daemon.kind} of process {daemon.pid}"
    path = session.socket_of(b"control" if daemon.kind == "head" else b"node")
    body = encode_request(request)
    if len(body) > VISITORS_REQUEST_BYTES:
        raise MessageTooLargeError(
            f"{type(request).__name__} is too large: it has {len(body)} bytes, and the limit "
            f"of a command's request is {VISITORS_REQUEST_BYTES}."
        )
    with contextlib.closing(Socket(AF_UNIX, SOCK_STREAM)) as sock:
        try:
            sock.connect(path)
        except OSError as error:
            raise ConnectionError(f"{who} cannot be reached: {error.strerror}") from None
        of_account(sock, daemon.uid)
        visit = _Visit(sock, who, timeout_s)
        visit.send(Ask(1, request.kind, body))
        reply = visit.reply()
    return read_result(request, reply.result, reply.error)


class _Visit:
    """One request on an open socket, and its answer."""

    def __init__(self, sock: Socket, who: str, timeout_s: float) -> None:
        self._sock = sock
        self._who = who
        self._timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s

    def send(self, message: Ask) -> None:
        body = encoded(msgspec.msgpack.encode, [message])
        self._wait()
        # The next read reports the end.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._sock.sendall(len(body).to_bytes(HEADER_BYTES, "big") + body)

    def reply(self) -> Reply:
        """Return the first reply among the messages that arrive."""
        while True:
            length = int.from_bytes(self._read(HEADER_BYTES), "big")
            if length > MAX_FRAME_BYTES:
                raise ProtocolError(
                    f"a frame of {length} bytes is above the limit of {MAX_FRAME_BYTES}"
                )
            body = self._read(length)
            try:
                messages = msgspec.msgpack.decode(body, type=list[msgspec.Raw])
            except msgspec.MsgspecError as error:
                raise ProtocolError(f"a frame that is not of the protocol: {error}") from None
            for message in messages:
                # This message is of another kind.
                with contextlib.suppress(msgspec.ValidationError):
                    return msgspec.msgpack.decode(message, type=Reply)

    def _read(self, size: int) -> bytearray:
        found = bytearray(size)
        rest = memoryview(found)
        while rest:
            self._wait()
            try:
                count = self._sock.recv_into(rest)
            except TimeoutError:
                self._late()
            except OSError:
                count = 0
            if not count:
                raise ConnectionError(f"{self._who} ended before it answered")
            rest = rest[count:]
        return found

    def _wait(self) -> None:
        """Make the next operation on the socket wait for at most the time that remains."""
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            self._late()
        self._sock.settimeout(left_s)

    def _late(self) -> NoReturn:
        raise TimeoutError(f"{self._who} did not answer within {self._timeout_s:g} s")
