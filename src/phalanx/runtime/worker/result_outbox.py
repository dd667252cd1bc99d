"""Results on their way to owners. Many short ones are sent together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from phalanx.protocol.messages import Done, Message, Results
from phalanx.runtime.os.connection import Connection

SHORT_S = 0.0005
"""Results wait for the next task if that task is expected to take at most this time in seconds."""
FLUSH_S = 0.001
"""The longest time, in seconds, for which results wait."""
TOGETHER_BYTES = 1 << 14
"""A value of more than this size in bytes is the last one in its message, which is then posted at
once.
"""


class ResultOutbox:
    """Results that wait a moment, so that several are sent together."""

    def __init__(self, flush_others: Callable[[], None]) -> None:
        """`flush_others` sends everything else that this process has posted."""
        self._flush_others = flush_others
        self._posted: set[Connection] = set()
        self._last_flush = 0.0
        self._lock = threading.RLock()
        """Guards the results that wait to share a message."""
        self._is_busy = False
        """Whether the thread with the lock is at work. Garbage may be collected after any call, and
        then a finalizer of that thread may post or send results in the middle of this work.
        """
        self._to: Connection | None = None
        self._first = 0
        """The number of the first task or call whose result waits."""
        self._values: list[bytes] = []
        self._started: list[float] = []
        self._ended: list[float] = []

    def post(self, connection: Connection, message: Message) -> None:
        """Post a result, which will be sent soon."""
        if type(message) is Done and type(message.value) is bytes and not message.more:
            number, value = message.number, message.value
            self.done(connection, number, value, message.started, message.ended)
            return
        if self._values:
            self._pass_on()
        connection.post(message)
        self._posted.add(connection)

    def done(
        self, connection: Connection, number: int, value: bytes, started: float, ended: float
    ) -> None:
        """Post a result that is a single pickle. Results with consecutive numbers share a
        message.
        """
        with self._lock:
            if self._is_busy:
                connection.post(Done(number, value, started, ended))
                self._posted.add(connection)
                return
            self._is_busy = True
            try:
                values = self._values
                if number != self._first + len(values) or connection is not self._to:
                    if values:
                        self._post_waiting()
                        values = self._values
                    self._to, self._first = connection, number
                values.append(value)
                self._started.append(started)
                self._ended.append(ended)
                if len(value) > TOGETHER_BYTES:
                    self._post_waiting()
            finally:
                self._is_busy = False

    def _pass_on(self) -> None:
        """Post the results that share a message. Do nothing if this call has interrupted another
        call that changes them.
        """
        with self._lock:
            if not self._is_busy:
                self._is_busy = True
                try:
                    self._post_waiting()
                finally:
                    self._is_busy = False

    def _post_waiting(self) -> None:
        """Post the results that share a message. The caller holds the lock, and has set
        `_is_busy`.
        """
        connection, first, count = self._to, self._first, len(self._values)
        if connection is None or not count:
            return
        if count == 1:
            started, ended = self._started.pop(), self._ended.pop()
            connection.post(Done(first, self._values.pop(), started, ended))
        else:
            connection.post(Results(first, self._values, self._started, self._ended))
            self._values, self._started, self._ended = [], [], []
        self._first = first + count
        self._posted.add(connection)

    def flush(self) -> None:
        """Send all results."""
        self._last_flush = time.monotonic()
        self._send()
        self._flush_others()

    def _send(self) -> None:
        if self._values:
            self._pass_on()
        while self._posted:
            try:
                self._posted.pop().flush()
            except KeyError:  # another thread has removed the last one
                break

    def flush_before(self, expected_s: float) -> None:
        """Send the results now, unless they have waited for a short time only and the next work is
        expected to be short.
        """
        if self._posted or self._values:
            is_late = time.monotonic() - self._last_flush > FLUSH_S
            if expected_s > SHORT_S or is_late:
                self.flush()

    def flush_if_late(self) -> None:
        """Send results that have waited long enough."""
        if time.monotonic() - self._last_flush > FLUSH_S:
            self.flush()

    def send_late(self) -> None:
        """Send results that have waited long enough, from any thread.

        A task that was expected to be short may take long.
        """
        if (self._posted or self._values) and time.monotonic() - self._last_flush > FLUSH_S:
            self._send()
