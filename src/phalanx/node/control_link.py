"""A node's way to the control store: in its own process, or over a connection that may break.

What a node tells is kept until the control store has confirmed it, and what it asks until it is
answered: after a restart of the head, both are sent again, in order. So everything sent here may
arrive twice, and the control store takes it so.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from phalanx.protocol.cluster_messages import Acked, ForwardedAsk, ForwardedReply, Told
from phalanx.protocol.frames import encode_body
from phalanx.protocol.requests.request import Request, encode_request, read_result

if TYPE_CHECKING:
    from phalanx.engines.embedded.connection import Connection

OnReply = Callable[[ForwardedReply], None]
R = TypeVar("R")


class ControlLink(Protocol):
    """What the rest of the node uses."""

    def tell(self, message: Any) -> None:
        """Say something that must not be lost."""
        ...

    def report(self, message: Any) -> None:
        """Say something that the next such message replaces."""
        ...

    def forward(self, origin: bytes, kind: int, body: msgspec.Raw, replied: OnReply) -> None:
        """Pass on a request of process `origin`, or of a visitor (empty); `replied` is called with
        the reply, once."""
        ...


def ask(
    link: ControlLink,
    node: bytes,
    request: Request[R],
    answered: Callable[[Callable[[], R]], None],
) -> None:
    """Ask the control store something for the node itself, whose own process is `node`. `answered`
    is called once, with what gives the answer, or raises the error that it is."""

    def replied(reply: ForwardedReply) -> None:
        answered(partial(read_result, request, reply.result, reply.error))

    link.forward(node, request.kind, encode_request(request), replied)


class Mailbox:
    """Messages between a node and a control store in one process: handled after, not inside,
    whatever caused them."""

    def __init__(self) -> None:
        self._items: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._is_emptying = False

    def put(self, handler: Callable[[Any], None], message: Any) -> None:
        """Hand a message over at the next `empty`."""
        self._items.append((handler, message))

    def empty(self) -> None:
        """Hand over everything, and what that causes."""
        if self._is_emptying:
            return
        self._is_emptying = True
        try:
            while self._items:
                handler, message = self._items.popleft()
                handler(message)
        finally:
            self._is_emptying = False


class LocalControl:
    """The control store lives in this process."""

    def __init__(self, mailbox: Mailbox, to_control: Callable[[Any], None]) -> None:
        self._mailbox = mailbox
        self._to_control = to_control
        self._tokens = itertools.count(1)
        self._asked: dict[int, OnReply] = {}

    def tell(self, message: Any) -> None:
        """Nothing gets lost here."""
        self._mailbox.put(self._to_control, message)

    report = tell

    def forward(self, origin: bytes, kind: int, body: msgspec.Raw, replied: OnReply) -> None:
        """See ControlLink."""
        token = next(self._tokens)
        self._asked[token] = replied
        self._mailbox.put(self._to_control, ForwardedAsk(token, origin, kind, body))

    def replied(self, reply: ForwardedReply) -> None:
        """The control store has replied."""
        callback = self._asked.pop(reply.token, None)
        if callback is not None:
            callback(reply)


class RemoteControl:
    """The control store is the head's process. `connection` is None while there is none."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self._tokens = itertools.count(1)
        self._asked: dict[int, OnReply] = {}
        self._unsaid: dict[int, Any] = {}
        """Everything not confirmed yet, in order."""

    def tell(self, message: Any) -> None:
        """See ControlLink."""
        token = next(self._tokens)
        self._say(token, Told(token, encode_body([message])))

    def report(self, message: Any) -> None:
        """See ControlLink."""
        if self.connection is not None:
            self.connection.post(message)

    def forward(self, origin: bytes, kind: int, body: msgspec.Raw, replied: OnReply) -> None:
        """See ControlLink."""
        token = next(self._tokens)
        self._asked[token] = replied
        self._say(token, ForwardedAsk(token, origin, kind, body))

    def _say(self, token: int, message: Any) -> None:
        self._unsaid[token] = message
        if self.connection is not None:
            self.connection.post(message)

    def connected(self, connection: Connection) -> None:
        """There is a connection (again): say everything that was not confirmed."""
        self.connection = connection
        for message in self._unsaid.values():
            connection.post(message)

    def acked(self, message: Acked) -> None:
        """The control store has it."""
        self._unsaid.pop(message.token, None)

    def replied(self, reply: ForwardedReply) -> None:
        """The control store has replied."""
        self._unsaid.pop(reply.token, None)
        callback = self._asked.pop(reply.token, None)
        if callback is not None:
            callback(reply)
