"""Requests to the node, and through it to the control store, whose answers come as events."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from phalanx.owner.transport import NodeLink
from phalanx.protocol.node_messages import Reply, Request

Answered = Callable[[Reply], None]


class Requests:
    """Requests under way, by their tokens."""

    def __init__(self, node: NodeLink) -> None:
        self._node = node
        self._tokens = itertools.count(1)
        self._answered: dict[int, Answered] = {}

    def call_async(self, method: str, answered: Answered, **args: Any) -> int:
        """Ask without waiting; `answered` is called with the answer. The request's token."""
        token = next(self._tokens)
        self._answered[token] = answered
        self._node.post(Request(token, method, args))
        return token

    def notify(self, method: str, **args: Any) -> None:
        """Ask for something whose answer nobody needs."""
        self._node.post(Request(0, method, args))

    def forget(self, token: int) -> None:
        """Nobody waits for this answer any more."""
        self._answered.pop(token, None)

    def on_reply(self, reply: Reply) -> None:
        """The node has answered."""
        answered = self._answered.pop(reply.token, None)
        if answered is not None:
            answered(reply)

    def node_lost(self) -> None:
        """The node's process is gone: nothing will be answered."""
        waiting, self._answered = self._answered, {}
        error = ("LocalNodeDiedError", "the node process of this machine is gone")
        for token, answered in waiting.items():
            answered(Reply(token, None, error))
