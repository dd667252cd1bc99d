"""Requests to a control store that stands by itself in a test."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from phalanx.head.head import Head
from phalanx.protocol.requests.request import Asker, Request, Role, encode_request, read_result
from phalanx.protocol.wire_errors import WireError

R = TypeVar("R")


def ask(shell: Head, request: Request[R], process: bytes = bytes(16)) -> R | None:
    """What a control store answers to a process, raised where it is an error; None when it answers
    later."""
    replies: list[tuple[msgspec.Raw, WireError | None]] = []
    asker: Asker[R] = Asker(Role.PROCESS, process, lambda *reply: replies.append(reply))
    shell.answering.handlers_of(request.kind).answer(request.kind, encode_request(request), asker)
    return read_result(request, *replies[0]) if replies else None
