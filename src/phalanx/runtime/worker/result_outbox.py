"""Results on their way to owners. Many short ones are sent together."""

from __future__ import annotations

import time
from collections.abc import Callable

from phalanx.protocol.messages import Message
from phalanx.runtime.os.connection import Connection

SHORT_S = 0.0005
"""Seconds: if the next task is expected to take at most this long, results wait for it."""
FLUSH_S = 0.001
"""The longest time, in seconds, for which results wait."""


class ResultOutbox:
    """Results that wait a moment, so that several are sent together."""

    def __init__(self, flush_others: Callable[[], None]) -> None:
        """`flush_others` sends everything else that this process has posted."""
        self._flush_others = flush_others
        self._posted: set[Connection] = set()
        self._last_flush = 0.0

    def post(self, connection: Connection, message: Message) -> None:
        """Post a result, which will be sent soon."""
        connection.post(message)
        self._posted.add(connection)

    def flush(self) -> None:
        """Send all results."""
        self._last_flush = time.monotonic()
        self._send()
        self._flush_others()

    def _send(self) -> None:
        while self._posted:
            try:
                self._posted.pop().flush()
            except KeyError:  # another thread has removed the last one
                break

    def flush_before(self, expected_s: float) -> None:
        """Send the results before work that is expected to take this number of seconds, unless that
        is short.
        """
        if self._posted and (expected_s > SHORT_S or time.monotonic() - self._last_flush > FLUSH_S):
            self.flush()

    def flush_if_late(self) -> None:
        """Send results that have waited long enough."""
        if time.monotonic() - self._last_flush > FLUSH_S:
            self.flush()

    def send_late(self) -> None:
        """Send results that have waited long enough, from any thread.

        A task that was expected to be short may take long.
        """
        if self._posted and time.monotonic() - self._last_flush > FLUSH_S:
            self._send()
