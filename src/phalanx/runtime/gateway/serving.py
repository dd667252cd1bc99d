"""Sends this node's objects to the gateways of other nodes."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from phalanx.errors import ProtocolError
from phalanx.protocol.handshake import GatewaysHandshake, Status
from phalanx.runtime.gateway.chunks import GET_BYTES, answer_get, blocking, decode_get
from phalanx.runtime.gateway.links import Link
from phalanx.runtime.gateway.object_files import ObjectFiles

_THREADS = 64
"""The number of threads that send parts at the same time. They start when needed.

When a node freezes while it fetches parts, each of its connections holds a thread here until the
thread gives up. With this number of threads, several frozen nodes do not delay any other node.
"""
_CONNECTIONS = 4096
_IDLE_S = 300.0


class Serving:
    """Waits for requests in the event loop, and answers each in one of a few threads."""

    def __init__(self, loop: asyncio.AbstractEventLoop, files: ObjectFiles) -> None:
        self._loop = loop
        self._files = files
        self._threads = ThreadPoolExecutor(_THREADS, "send")
        self._connections = 0

    async def serve(self, link: Link, handshake: GatewaysHandshake) -> None:
        """Answer requests until the connection ends or breaks the rules."""
        if self._connections >= _CONNECTIONS:
            await link.send(handshake.verdict(Status.BUSY))
            link.close()
            return
        self._connections += 1
        try:
            await link.send(handshake.verdict(Status.OK))
            while True:
                raw = await asyncio.wait_for(link.receive(GET_BYTES), _IDLE_S)
                name, offset, length = decode_get(raw)
                await self._loop.run_in_executor(
                    self._threads, self._answer, link, name, offset, length
                )
        except (TimeoutError, OSError, EOFError, ProtocolError):
            return  # the other side sees that the connection ends
        finally:
            self._connections -= 1
            link.close()

    def _answer(self, link: Link, name: str, offset: int, length: int) -> None:
        with blocking(link.sock):
            answer_get(self._files, link.sock, name, offset, length)
