"""The socket that a process gets for a connection: the TCP socket itself or, with TLS, a relayed
one.
"""

from __future__ import annotations

import asyncio
import socket

from phalanx.protocol.handshake import Status
from phalanx.runtime.gateway.gate import DialError
from phalanx.runtime.gateway.links import Link

_PIECE_BYTES = 1 << 16
_LINGER_S = 10.0
_AT_ONCE = 4096


class Relays:
    """The encrypted connections of this node's processes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tasks: set[asyncio.Task[None]] = set()

    def check(self, link: Link, always: bool = False) -> None:
        """Raise DialError if `link` needs a relay, and there are as many relays as are allowed. A
        link needs a relay if it uses TLS, or if `always` is true.
        """
        if (link.is_tls or always) and len(self._tasks) >= _AT_ONCE:
            raise DialError(
                Status.BUSY, f"this node relays {_AT_ONCE} encrypted connections, its limit"
            )

    def open_end(self, link: Link) -> socket.socket:
        """Return a socket that can be passed to a process: the socket of `link` itself, or one end
        of a new relay if `link` uses TLS. The caller must close its own copy of the socket.
        """
        if not link.is_tls:
            return link.detach()
        ours, theirs = socket.socketpair()
        self.join(link, Link(self._loop, ours))
        return theirs

    def join(self, one: Link, other: Link) -> asyncio.Task[None]:
        """Carry bytes between two connections. The task is done when both sides have ended."""
        task = self._loop.create_task(_relay(one, other))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def _relay(first: Link, second: Link) -> None:
    """Carry bytes in both directions until both sides have ended. Each direction holds at most
    one piece.
    """
    ways = [
        asyncio.ensure_future(_carry(first, second)),
        asyncio.ensure_future(_carry(second, first)),
    ]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        # After one side has ended, wait for the other side's last bytes, but not forever.
        await asyncio.wait(ways, timeout=_LINGER_S)
    finally:
        for way in ways:
            way.cancel()
        first.close()
        second.close()


async def _carry(source: Link, sink: Link) -> None:
    try:
        while True:
            await sink.send(await source.receive_some(_PIECE_BYTES))
    except (EOFError, OSError):
        sink.end_writing()
