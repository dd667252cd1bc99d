"""The client's side of the conversation with its driver: it sends messages, and waits for
answers.
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from phalanx.errors import MessageTooLargeError, ProtocolError
from phalanx.protocol import client_messages as m
from phalanx.protocol.wire_errors import from_wire
from phalanx.runtime.client.channel import Channel
from phalanx.runtime.os.own_time import own_time

_FLUSH_S = 1.0


class NotYetError(Exception):
    """Raised if an answer has not come in time."""


class Expected:
    """An answer that was requested and may not have come yet."""

    def __init__(self) -> None:
        self._came = threading.Event()
        self._answer: m.Answer | None = None
        self._lost = ""

    @property
    def is_there(self) -> bool:
        """Whether the answer has come, or will not come."""
        return self._came.is_set()

    def came(self, answer: m.Answer) -> None:
        """Store the answer."""
        self._answer = answer
        self._came.set()

    def lost(self, reason: str) -> None:
        """End the wait, because no answer will come."""
        self._lost = reason
        self._came.set()

    def result(self, timeout_s: float | None = None) -> msgspec.Raw:
        """Wait for the answer, and return it. Raises NotYetError, the error that is the answer, and
        ConnectionError if the driver is lost.
        """
        if not self._came.wait(timeout_s):
            raise NotYetError
        if self._answer is None:
            raise ConnectionError(self._lost)
        if self._answer.error is not None:
            raise from_wire(self._answer.error)
        return self._answer.result


class Conversation:
    """The messages of one client. Any thread may use it."""

    def __init__(self) -> None:
        self.channel = Channel(self._on_message)
        self.dropped: deque[tuple[bytes, int, int]] = deque()
        """Names whose last reference is gone, as in `Drop`. Finalizers append to this queue."""
        self.before_sending: Callable[[], list[Any]] = list
        """A function that returns the messages to send before any others."""
        self.heard: dict[type, Callable[[Any], None]] = {}
        """The functions that handle messages, by type. They run one after another."""
        self.lost_because = ""
        """Why the driver is lost; "" until the driver is lost."""
        self.on_lost: Callable[[str], None] = lambda reason: None
        self._tokens = itertools.count(1)
        self._expected: dict[int, Expected] = {}
        self._events: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run_events, name="client events", daemon=True).start()

    # ---- out ---------------------------------------------------------------------------------

    def tell(self, *messages: Any) -> None:
        """Send messages, in this order. Before them go the messages of `before_sending`, and the
        news of dropped references. Raises ConnectionError if the driver is lost, and
        MessageTooLargeError.
        """
        first = self.before_sending()
        names = []
        for _ in range(len(self.dropped)):
            names.append(self.dropped.popleft())
        if names:
            first.append(m.Drop(names))
        try:
            self.channel.send(*first, *messages, may_wait=True)
        except ConnectionError:
            raise ConnectionError(self.lost_because or "the connection is closed") from None
        except ProtocolError as error:
            raise MessageTooLargeError(
                f"It cannot be sent to the driver on the cluster: {error}."
            ) from None

    def ask(self, make: Callable[[int], Any]) -> Expected:
        """Send the message that `make` returns for a token. The answer comes later, with the same
        token.
        """
        token, expected = next(self._tokens), Expected()
        self._expected[token] = expected
        try:
            self.tell(make(token))
        except BaseException:
            self._expected.pop(token, None)
            raise
        if self.lost_because:
            expected.lost(self.lost_because)
        return expected

    def later(self, event: Callable[[], None]) -> None:
        """Call a function soon, on a thread that may wait for the driver."""
        self._events.put(event)

    def lose(self, reason: str) -> None:
        """End all waits, because the driver is lost or was left."""
        if self.lost_because:
            return
        self.lost_because = reason
        self.channel.close()
        while self._expected:
            _, expected = self._expected.popitem()
            expected.lost(reason)
        self.on_lost(reason)

    def stop(self) -> None:
        """End the thread of `later`."""
        self._events.put(None)

    # ---- in ----------------------------------------------------------------------------------

    def _on_message(self, body: bytes) -> None:
        message = m.decode_for_client(body)
        if isinstance(message, m.Answer):
            expected = self._expected.pop(message.token, None)
            if expected is not None:
                expected.came(message)
            return
        handle = self.heard.get(type(message))
        if handle is not None:
            handle(message)

    def _run_events(self) -> None:
        flush_at = own_time() + _FLUSH_S
        while True:
            try:
                event = self._events.get(timeout=_FLUSH_S)
            except queue.Empty:
                event = self._flush
            if event is None:
                return
            event()
            if own_time() >= flush_at:
                flush_at = own_time() + _FLUSH_S
                self._flush()

    def _flush(self) -> None:
        if not self.lost_because and self.dropped:
            try:
                self.tell()
            except ConnectionError:
                return
