"""Requests to a control store that stands by itself in a test."""

from __future__ import annotations

from phalanx.protocol.requests.request import Asker, Role, encode_request, read_result


def ask(shell, request, process=bytes(16)):
    """What a control store answers to a process, raised where it is an error; None when it answers
    later."""
    replies = []
    asker = Asker(Role.PROCESS, process, lambda *reply: replies.append(reply))
    shell.handlers_of(request.kind).answer(request.kind, encode_request(request), asker)
    return read_result(request, *replies[0]) if replies else None
