"""Hands an accepted connection to its target process."""

from __future__ import annotations

import asyncio
import os
import socket

from phalanx.model.ids import CONTROL, PREFIX_BYTES
from phalanx.protocol.frames import encode_frame
from phalanx.protocol.handshake import GatewaysHandshake, Status
from phalanx.protocol.messages import Handed
from phalanx.runtime.gateway.links import Link
from phalanx.runtime.gateway.relay import Relays
from phalanx.runtime.os.session import Session

_PATIENCE_S = 5.0


class Delivery:
    """The sockets of this node's processes."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        session: Session,
        prefixes: tuple[bytes, ...],
        relays: Relays,
    ) -> None:
        self._loop = loop
        self._session = session
        self._prefixes = frozenset(prefixes)
        self._relays = relays

    async def deliver(
        self,
        link: Link,
        target: bytes,
        handshake: GatewaysHandshake,
        address: str,
        token: str = "",
        is_node: bool = False,
    ) -> None:
        """Pass the connection to the process, and tell the dialling side whether the process
        exists.

        `token`: the id of the token that the dialling side has proved to hold; "" for the cluster's
        token. `is_node`: whether this token is the key of a node.
        """
        try:
            self._relays.check(link)
            process = await self._connect(target)
        except (FileNotFoundError, ConnectionError) as error:
            status = getattr(error, "status", Status.NO_PROCESS)
            await link.send(handshake.verdict(status))
            link.close()
            return
        with process:
            await link.send(handshake.verdict(Status.OK))
            with self._relays.open_end(link) as end:
                # The socket is empty and the bytes are few, so the kernel takes them at once.
                handed = encode_frame([Handed(address, token, is_node)])
                socket.send_fds(process, [handed], [end.fileno()])

    def is_here(self, target: bytes) -> bool:
        """Whether the target belongs to a node for which this gateway works."""
        return target[:PREFIX_BYTES] in self._prefixes

    async def _connect(self, target: bytes) -> socket.socket:
        path = self._path_of(target)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.setblocking(False)
        deadline = self._loop.time() + _PATIENCE_S
        try:
            while True:
                try:
                    sock.connect(path)
                    return sock
                except BlockingIOError:  # the queue of the process is full
                    if self._loop.time() > deadline:
                        raise ConnectionRefusedError("the process accepts no connection") from None
                    await asyncio.sleep(0.01)
        except BaseException:
            sock.close()
            raise

    def _path_of(self, target: bytes) -> str:
        """Return the path of the target's socket. Raises FileNotFoundError for another node's
        target."""
        if not self.is_here(target):
            raise FileNotFoundError(f"node {target[:PREFIX_BYTES].hex()} is not here")
        if target == CONTROL:
            return os.path.join(self._session.sockets, "control")
        if not any(target[PREFIX_BYTES:]):
            return self._session.socket_of(b"node")
        return self._session.socket_of(target)
