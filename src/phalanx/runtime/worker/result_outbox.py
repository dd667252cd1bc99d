"""Results on their way to owners: many short ones leave together."""

from __future__ import annotations

import time
from collections.abc import Callable

from phalanx.protocol.messages import Message
from phalanx.runtime.os.connection import Connection

SHORT_S = 0.0005
"""Results wait while the next task is expected to be as short as this."""
FLUSH_S = 0.001
"""Results wait no longer than this."""


class ResultOutbox:
    """Messages that wait a moment for company."""

    def __init__(self, flush_others: Callable[[], None]) -> None:
        """`flush_others` lets everything else leave that this process has posted."""
        self._flush_others = flush_others
        self._posted: set[Connection] = set()
        self._last_flush = 0.0

    def post(self, connection: Connection, message: Message) -> None:
        """Send a result, soon."""
        connection.post(message)
        self._posted.add(connection)

    def flush(self) -> None:
        """Let results leave."""
        self._last_flush = time.monotonic()
        self._send()
        self._flush_others()

    def _send(self) -> None:
        while self._posted:
            try:
                self._posted.pop().flush()
            except KeyError:  # another thread has taken the last one
                break

    def flush_before(self, expected_s: float) -> None:
        """Let results leave before something that may take so long."""
        if self._posted and (expected_s > SHORT_S or time.monotonic() - self._last_flush > FLUSH_S):
            self.flush()

    def flush_if_late(self) -> None:
        """Let results leave that have waited for company long enough."""
        if time.monotonic() - self._last_flush > FLUSH_S:
            self.flush()

    def send_late(self) -> None:
        """The same, from any thread: what was expected to be short may take long."""
        if self._posted and time.monotonic() - self._last_flush > FLUSH_S:
            self._send()
