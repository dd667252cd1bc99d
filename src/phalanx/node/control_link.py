"""A node's way to the control store: in its own process, or over a connection that may break.

What a node tells is kept until the control store has it on its own books, and what it asks until
it is answered: after a restart of the head, both are said again, in order. So everything said here
may arrive twice, and the control store takes it so.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from phalanx.protocol.cluster_messages import Acked, Answer, Ask, Told
from phalanx.protocol.frames import encode_body

if TYPE_CHECKING:
    from phalanx.engines.embedded.connection import Connection

OnAnswer = Callable[[Answer], None]


class ControlLink(Protocol):
    """What the rest of the node uses."""

    def tell(self, message: Any) -> None:
        """Say something that must not be lost."""
        ...

    def report(self, message: Any) -> None:
        """Say something that the next such message replaces."""
        ...

    def ask(self, origin: bytes, method: str, args: dict[str, Any], answered: OnAnswer) -> None:
        """Ask on behalf of a process; `answered` is called with the answer, once."""
        ...


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
        self._asked: dict[int, OnAnswer] = {}

    def tell(self, message: Any) -> None:
        """Nothing gets lost here."""
        self._mailbox.put(self._to_control, message)

    report = tell

    def ask(self, origin: bytes, method: str, args: dict[str, Any], answered: OnAnswer) -> None:
        """See ControlLink."""
        token = next(self._tokens)
        self._asked[token] = answered
        self._mailbox.put(self._to_control, Ask(token, origin, method, args))

    def answered(self, answer: Answer) -> None:
        """The control store has answered."""
        callback = self._asked.pop(answer.token, None)
        if callback is not None:
            callback(answer)


class RemoteControl:
    """The control store is the head's process. `connection` is None while there is none."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self._tokens = itertools.count(1)
        self._asked: dict[int, OnAnswer] = {}
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

    def ask(self, origin: bytes, method: str, args: dict[str, Any], answered: OnAnswer) -> None:
        """See ControlLink."""
        token = next(self._tokens)
        self._asked[token] = answered
        self._say(token, Ask(token, origin, method, args))

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

    def answered(self, answer: Answer) -> None:
        """The control store has answered."""
        self._unsaid.pop(answer.token, None)
        callback = self._asked.pop(answer.token, None)
        if callback is not None:
            callback(answer)
