"""Requests to a daemon of this machine from a visitor.

A visitor is a process that is neither driver nor node, such as the command line.
"""

from __future__ import annotations

import select
import time
from typing import TypeVar

from phalanx.errors import MessageTooLargeError
from phalanx.protocol.frames import STRANGERS_FRAME_BYTES
from phalanx.protocol.node_messages import Ask, Reply
from phalanx.protocol.requests.request import Request, encode_request, read_result
from phalanx.runtime.daemons.daemon_files import Announcement
from phalanx.runtime.os.accounts import user_name
from phalanx.runtime.os.connection import connect, same_user
from phalanx.runtime.os.polling import wait_for
from phalanx.runtime.os.session import Session

R = TypeVar("R")

VISITORS_REQUEST_BYTES = STRANGERS_FRAME_BYTES - 100
"""The most bytes of a request in which a visitor introduces itself."""


def ask_daemon(session: Session, daemon: Announcement, request: Request[R], timeout_s: float) -> R:
    """Return a head's answer to one question, from the head itself or through a node.

    Raises ConnectionError when the daemon has ended, TimeoutError when it does not answer, and an
    error that is the answer.
    """
    deadline = time.monotonic() + timeout_s
    who = f"the {daemon.kind} of process {daemon.pid}"
    try:
        connection = connect(session.socket_of(b"control" if daemon.kind == "head" else b"node"))
    except OSError as error:
        raise ConnectionError(f"{who} cannot be reached: {error.strerror}") from None
    try:
        same_user(connection.sock)
        body = encode_request(request)
        if len(body) > VISITORS_REQUEST_BYTES:
            raise MessageTooLargeError(
                f"{type(request).__name__} is too large: it has {len(body)} bytes, and the limit "
                f"of a command's request is {VISITORS_REQUEST_BYTES}."
            )
        connection.send(Ask(1, request.kind, body, user_name()))
        connection.drain_all(timeout_s)  # the kernel takes about 200 KiB at once
        while wait_for(connection.fileno, select.POLLIN, max(deadline - time.monotonic(), 0)):
            messages = connection.receive()
            if messages is None:
                raise ConnectionError(f"{who} ended before it answered")
            for message in messages:
                if isinstance(message, Reply):
                    return read_result(request, message.result, message.error)
        raise TimeoutError(f"{who} did not answer within {timeout_s:g} s")
    finally:
        connection.close()
