"""Answers requests of a node's processes and visitors, or passes them on to the head."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from phalanx.errors import SystemFailureError
from phalanx.model.principals import JOB, Principal
from phalanx.node.head_link import HeadLink
from phalanx.node.peers import WORKER, Peer
from phalanx.protocol.asking import Ask, Reply
from phalanx.protocol.cluster_messages import ForwardedReply
from phalanx.protocol.requests.cluster import (
    GetAvailableResources,
    GetClusterResources,
    ListNodes,
)
from phalanx.protocol.requests.groups import CreateGroup
from phalanx.protocol.requests.request import NOTHING, Asker, RequestHandlers, Role
from phalanx.protocol.wire_errors import WireError, to_wire

_JOB = slice(12, 16)
"""The bytes of a process's id that name the driver's job, as a slice."""
_NEEDS_REPORT = frozenset(
    one.kind for one in (GetAvailableResources, GetClusterResources, ListNodes, CreateGroup)
)
"""Requests before which the head must know the free resources of this node."""


class HeadState(Protocol):
    """Knows the state of the node's link to its head."""

    @property
    def trouble(self) -> str:
        """Why the head cannot be reached; "" while it can."""
        ...


class NodeAsker(Asker[Any]):
    """The process or visitor that sent a request to this node, and its connection."""

    __slots__ = ("peer",)

    def __init__(self, peer: Peer, token: int) -> None:
        def send(result: msgspec.Raw, error: WireError | None) -> None:
            peer.post(Reply(token, result, error))

        role = Role.PROCESS if peer.peer else Role.VISITOR
        super().__init__(role, peer.peer, send if token else None)
        self.peer = peer


class NodeRequests:
    """Answers the requests for which the node has handlers. The head gets all others."""

    def __init__(
        self,
        handlers: RequestHandlers,
        link: HeadLink,
        head: HeadState,
        address: str,
        report: Callable[[], None],
    ) -> None:
        """`address`: the address of the head, for display. `report` reports the free resources of
        this node to the head; it is called before some requests.
        """
        self._handlers = handlers
        self._link = link
        self._head = head
        self._address = address
        self._report = report

    def answer(self, peer: Peer, ask: Ask) -> None:
        """Answer a request, now or later."""
        if ask.kind in self._handlers:
            self._handlers.answer(ask.kind, ask.body, NodeAsker(peer, ask.token))
            return
        trouble = self._head.trouble
        if trouble and not peer.peer:
            # A person waits for the answer, and an error now is better than an answer much later.
            where = f"The head at {self._address}"
            error = to_wire(SystemFailureError(f"{where} cannot be reached: {trouble}."))
            peer.post(Reply(ask.token, NOTHING, error))
            return
        if ask.kind in _NEEDS_REPORT:
            self._report()

        def replied(reply: ForwardedReply) -> None:
            if ask.token:
                peer.post(Reply(ask.token, reply.result, reply.error))

        self._link.forward(peer.peer, ask.kind, ask.body, replied, principal_of(peer))


def principal_of(peer: Peer) -> Principal:
    """Return the principal of a process or visitor. A worker acts for its driver's job."""
    if peer.tag == WORKER:
        return Principal(JOB, peer.peer[_JOB].hex())
    return peer.principal
