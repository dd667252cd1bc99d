"""Requests to the node, which may pass them on to the head. Answers come as events."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import msgspec

from phalanx.errors import LocalNodeDiedError, MessageTooLargeError
from phalanx.owner.transport import NodeLink
from phalanx.protocol.asking import Ask, Reply
from phalanx.protocol.requests.request import NOTHING, Request, encode_request, read_result
from phalanx.protocol.wire_errors import to_wire

R = TypeVar("R")

REQUEST_BYTES = 256 << 20
"""The largest size of a request in bytes.

A larger request would not fit into the messages in which other processes pass it on, or into the
row in which the head stores it.
"""


class Requests:
    """Requests that wait for an answer, by their tokens."""

    def __init__(self, node: NodeLink) -> None:
        self._node = node
        self._tokens = itertools.count(1)
        self._replied: dict[int, Callable[[Reply], None]] = {}

    def call_async(self, request: Request[R], answered: Callable[[Callable[[], R]], None]) -> int:
        """Send a request without waiting for the answer. Returns the request's token.

        `answered` is called with a function that returns the answer or raises the error.
        """

        def replied(reply: Reply) -> None:
            answered(partial(read_result, request, reply.result, reply.error))

        token = next(self._tokens)
        try:
            body = _encoded(request)
        except MessageTooLargeError as error:
            replied(Reply(token, NOTHING, to_wire(error)))
            return token
        self._replied[token] = replied
        self._node.post(Ask(token, request.kind, body))
        return token

    def pass_on(self, kind: int, body: msgspec.Raw, replied: Callable[[Reply], None]) -> None:
        """Send a request of another process. The undecoded answer goes to `replied`."""
        token = next(self._tokens)
        self._replied[token] = replied
        self._node.post(Ask(token, kind, body))

    def pass_on_only(self, kind: int, body: msgspec.Raw) -> None:
        """Send a request of another process whose answer nobody needs."""
        self._node.post(Ask(0, kind, body))

    def notify(self, request: Request[Any]) -> None:
        """Send a request whose answer nobody needs. Raises MessageTooLargeError."""
        self._node.post(Ask(0, request.kind, _encoded(request)))

    def forget(self, token: int) -> None:
        """Drop the answer to a request, because nobody waits for it."""
        self._replied.pop(token, None)

    def on_reply(self, reply: Reply) -> None:
        """Handle an answer of the node."""
        replied = self._replied.pop(reply.token, None)
        if replied is not None:
            replied(reply)

    def node_lost(self) -> None:
        """Fail all requests, because the node's process has ended and will answer none."""
        waiting, self._replied = self._replied, {}
        error = to_wire(LocalNodeDiedError("the node process of this machine is gone"))
        for token, replied in waiting.items():
            replied(Reply(token, NOTHING, error))


def _encoded(request: Request[Any]) -> msgspec.Raw:
    body = encode_request(request)
    if len(body) > REQUEST_BYTES:
        raise MessageTooLargeError(
            f"{type(request).__name__} cannot be asked: it is {len(body)} bytes, and the limit "
            f"of a request is {REQUEST_BYTES}."
        )
    return body
