"""A node's link to the head, which is in the node's own process or at the other end of a connection
that may break.

A node keeps each notification until the head has stored it, and each request until the head has
answered. Over a new connection, the node sends both again, in order. So everything that is sent
here may arrive twice, and the head handles that.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar

import msgspec

from phalanx.model.principals import Principal
from phalanx.node.peers import Peer
from phalanx.protocol.cluster_messages import ForwardedAsk, ForwardedReply
from phalanx.protocol.frames import encode_body
from phalanx.protocol.membership_messages import Acked, Reported
from phalanx.protocol.requests.request import Request, encode_request, read_result

OnReply = Callable[[ForwardedReply], None]
R = TypeVar("R")


class HeadLink(Protocol):
    """Sends messages of all parts of a node to the head."""

    @property
    def is_connected(self) -> bool:
        """Whether the head can be reached now."""
        ...

    def notify(self, message: Any, confirmed: Callable[[], None] | None = None) -> None:
        """Send a message that must not be lost. `confirmed` is called once the head has stored
        it.
        """
        ...

    def report(self, message: Any) -> None:
        """Send a message that may be lost: the next message of its kind replaces it."""
        ...

    def forward(
        self,
        origin: bytes,
        kind: int,
        body: msgspec.Raw,
        replied: OnReply,
        principal: Principal | None = None,
    ) -> None:
        """Forward a request of the process `origin` together with the process's principal. An empty
        `origin` stands for a visitor.

        `replied` is called once, with the reply.
        """
        ...


def ask(
    link: HeadLink,
    node: bytes,
    request: Request[R],
    answered: Callable[[Callable[[], R]], None],
) -> None:
    """Send a request of the node itself to the head. `node`: the id of the node's process.

    `answered` is called once, with a function that returns the answer or raises the error.
    """

    def replied(reply: ForwardedReply) -> None:
        answered(partial(read_result, request, reply.result, reply.error))

    link.forward(node, request.kind, encode_request(request), replied)


class LocalHeadLink:
    """The link to a head in this process.

    A message waits in `sent` until it is handed over. So it is handled after the code that sent it
    has returned.
    """

    def __init__(self) -> None:
        self.is_connected = False
        """Whether the head exists already."""
        self.sent: deque[Any] = deque()
        self._tokens = itertools.count(1)
        self._asked: dict[int, OnReply] = {}

    def notify(self, message: Any, confirmed: Callable[[], None] | None = None) -> None:
        """Send a message. `confirmed` is never called: the head ends with this process, so no
        message is lost.
        """
        self.sent.append(message)

    def report(self, message: Any) -> None:
        """Send a message. No message is lost, because the head is in this process."""
        self.sent.append(message)

    def forward(
        self,
        origin: bytes,
        kind: int,
        body: msgspec.Raw,
        replied: OnReply,
        principal: Principal | None = None,
    ) -> None:
        """Forward a request; `replied` is called with the reply."""
        token = next(self._tokens)
        self._asked[token] = replied
        self.sent.append(ForwardedAsk(token, origin, kind, body, principal=principal))

    def replied(self, reply: ForwardedReply) -> None:
        """Pass the head's reply to the asker."""
        callback = self._asked.pop(reply.token, None)
        if callback is not None:
            callback(reply)


class RemoteHeadLink:
    """The link to a head in another process."""

    def __init__(self) -> None:
        self._connection: Peer | None = None
        self._tokens = itertools.count(1)
        self._asked: dict[int, OnReply] = {}
        self._unconfirmed: dict[int, Any] = {}
        """All messages that the head has not confirmed, in order, by token."""
        self._confirmed: dict[int, Callable[[], None]] = {}
        self._last_sent = 0
        """The token of the last message that was sent, over whichever connection."""

    @property
    def is_connected(self) -> bool:
        """Whether the head can be reached now."""
        return self._connection is not None

    def notify(self, message: Any, confirmed: Callable[[], None] | None = None) -> None:
        """Send a message, and repeat it over new connections until the head confirms it."""
        token = next(self._tokens)
        if confirmed is not None:
            self._confirmed[token] = confirmed
        self._send(token, Reported(token, encode_body([message])))

    def report(self, message: Any) -> None:
        """Send a message that may be lost."""
        if self._connection is not None:
            self._connection.post(message)

    def forward(
        self,
        origin: bytes,
        kind: int,
        body: msgspec.Raw,
        replied: OnReply,
        principal: Principal | None = None,
    ) -> None:
        """Forward a request. It is repeated over new connections until the head replies."""
        token = next(self._tokens)
        self._asked[token] = replied
        self._send(token, ForwardedAsk(token, origin, kind, body, principal=principal))

    def _send(self, token: int, message: Any) -> None:
        self._unconfirmed[token] = message
        if self._connection is not None:
            self._last_sent = token
            self._connection.post(message)

    def connected(self, connection: Peer) -> None:
        """Use the connection over which the node joined, and send all unconfirmed messages over
        it.
        """
        self._connection = connection
        for token, message in self._unconfirmed.items():
            is_again = token <= self._last_sent
            if is_again and isinstance(message, ForwardedAsk):
                message = msgspec.structs.replace(message, is_again=True)
            connection.post(message)
            self._last_sent = max(token, self._last_sent)

    def disconnected(self) -> None:
        """Forget the connection, which has ended. Messages wait for the next one."""
        self._connection = None

    def acked(self, message: Acked) -> None:
        """Forget a notification that the head has stored."""
        self._unconfirmed.pop(message.token, None)
        if (confirmed := self._confirmed.pop(message.token, None)) is not None:
            confirmed()

    def replied(self, reply: ForwardedReply) -> None:
        """Pass the head's reply to the asker, and forget the request."""
        self._unconfirmed.pop(reply.token, None)
        callback = self._asked.pop(reply.token, None)
        if callback is not None:
            callback(reply)
