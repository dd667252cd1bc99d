"""A socket in the gateway's event loop, plain or with TLS. It is read and written in exact numbers
of bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import Any, TypeVar

_Result = TypeVar("_Result")
_READ, _WRITE = "read", "write"


class Link:
    """A socket that never reads more than it is asked for. So it can be passed on between any two
    messages.

    Raises EOFError at the end of the stream, and OSError (for example ssl.SSLError) if the
    connection breaks.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self._loop = loop
        self._waiters: dict[str, asyncio.Future[None]] = {}

    @property
    def is_tls(self) -> bool:
        """Whether the bytes of this link go through TLS."""
        return isinstance(self.sock, ssl.SSLSocket)

    async def peek(self) -> bytes:
        """Return the first byte of a plain socket without removing it."""
        return await self._call(_READ, self.sock.recv, 1, socket.MSG_PEEK)

    async def receive(self, size: int) -> bytes:
        """Read exactly `size` bytes."""
        data = bytearray()
        while len(data) < size:
            data += await self.receive_some(size - len(data))
        return bytes(data)

    async def receive_some(self, limit: int) -> bytes:
        """Read between 1 and `limit` bytes."""
        data = await self._call(_READ, self.sock.recv, limit)
        if not data:
            raise EOFError
        return data

    async def send(self, data: bytes) -> None:
        """Send all of `data`."""
        view = memoryview(data)
        while view:
            view = view[await self._call(_WRITE, self.sock.send, view) :]

    async def wrap(self, context: ssl.SSLContext, server_side: bool) -> bytes:
        """Use TLS from now on. On the client's side, return the server's certificate as DER."""
        tls = context.wrap_socket(self.sock, server_side=server_side, do_handshake_on_connect=False)
        self.sock = tls
        await self._call(_READ, tls.do_handshake)
        return b"" if server_side else tls.getpeercert(binary_form=True) or b""

    def end_writing(self) -> None:
        """End the stream to the other side. The other side can still send."""
        with contextlib.suppress(OSError):
            # SSLSocket's own shutdown would end reading too.
            socket.socket.shutdown(self.sock, socket.SHUT_WR)

    def detach(self) -> socket.socket:
        """Return the socket for another reader. The loop no longer watches the socket."""
        self._forget()
        return self.sock

    def close(self) -> None:
        """Close the socket."""
        self._forget()
        self.sock.close()

    async def _call(self, event: str, call: Callable[..., _Result], *args: Any) -> _Result:
        while True:
            try:
                return call(*args)
            except BlockingIOError:
                await self._ready(event)
            except ssl.SSLWantReadError:
                await self._ready(_READ)
            except ssl.SSLWantWriteError:
                await self._ready(_WRITE)

    async def _ready(self, event: str) -> None:
        waiter = self._waiters.get(event)
        if waiter is None:
            waiter = self._waiters[event] = self._loop.create_future()
            watch: Any = self._loop.add_reader if event == _READ else self._loop.add_writer
            watch(self.sock.fileno(), self._fire, event)
        await asyncio.shield(waiter)

    def _fire(self, event: str) -> None:
        forget: Any = self._loop.remove_reader if event == _READ else self._loop.remove_writer
        forget(self.sock.fileno())
        waiter = self._waiters.pop(event)
        if not waiter.done():
            waiter.set_result(None)

    def _forget(self) -> None:
        for event in list(self._waiters):
            self._fire(event)
