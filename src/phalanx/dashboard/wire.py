"""Checks that the HTTP parser lacks. Lines that end with a bare LF are refused, because other
programs read such lines differently. Heads of requests that are too long, or that arrive too
slowly, are refused, too.
"""

from __future__ import annotations

import asyncio
import re

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 5.0
"""Seconds within which the first line and the headers of a request must arrive."""
HEAD_BYTES = 16_384
"""The largest size, in bytes, of the first line and the headers of a request."""
_BARE_LF = re.compile(rb"(?<!\r)\n")
_END = b"\r\n\r\n"


class StrictProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 protocol with limits on the head of a request."""

    _late: asyncio.TimerHandle | None = None
    _head = b""
    """The received bytes of an unfinished head."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._late = self.loop.call_later(HEAD_S, transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._in_time()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.conn.their_state is h11.IDLE:
            head, end, _ = (self._head + data).partition(_END)
            if _BARE_LF.search(head):
                self.send_400_response("A line of the head ends without a carriage return.")
                return
            if len(head) > HEAD_BYTES:
                self.send_400_response("The head is too long.")
                return
            self._head = b"" if end else head
            if not end and self._late is None:
                self._late = self.loop.call_later(HEAD_S, self.transport.close)
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._in_time()

    def _in_time(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
