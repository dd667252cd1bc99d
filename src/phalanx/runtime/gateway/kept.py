"""Authenticated connections to other gateways, kept for the next transfer from the same node."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Iterator

from phalanx.model.ids import node_process_id
from phalanx.protocol.handshake import Role
from phalanx.runtime.gateway.chunks import blocking
from phalanx.runtime.gateway.dialling import Dialler

PER_NODE = 4
_IDLE_S = 60.0
_Key = tuple[bytes, tuple[str, int]]


class KeptConnections:
    """Idle connections, at most PER_NODE for each node. Threads of transfers take and return
    them.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, dialler: Dialler) -> None:
        self._loop = loop
        self._dialler = dialler
        self._idle: dict[_Key, list[tuple[socket.socket, float]]] = {}
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def borrow(self, node: bytes, fresh: bool) -> Iterator[tuple[socket.socket, bool]]:
        """Yield (a blocking socket, whether it was kept); the socket is closed if the body raises.

        `fresh`: whether to make a new connection in any case. Raises the errors of `Dialler.dial`.
        """
        key = (node, self._dialler.address_of(node))
        sock = None if fresh else self._take(key)
        was_kept = sock is not None
        if sock is None:
            dialling = self._dialler.dial(node_process_id(node), Role.TRANSFER)
            link = asyncio.run_coroutine_threadsafe(dialling, self._loop).result()
            sock = link.detach()
        try:
            with blocking(sock):
                yield sock, was_kept
        except BaseException:
            sock.close()
            raise
        self._keep(key, sock)

    def _take(self, key: _Key) -> socket.socket | None:
        with self._lock:
            idle = self._idle.get(key)
            return idle.pop()[0] if idle else None

    def _keep(self, key: _Key, sock: socket.socket) -> None:
        with self._lock:
            idle = self._idle.setdefault(key, [])
            if len(idle) < PER_NODE:
                idle.append((sock, time.monotonic()))
                return
        sock.close()

    def expire(self) -> None:
        """Close connections that were not used for a minute."""
        oldest = time.monotonic() - _IDLE_S
        with self._lock:
            for key in list(self._idle):
                for sock, used in self._idle[key]:
                    if used < oldest:
                        sock.close()
                self._idle[key] = [kept for kept in self._idle[key] if kept[1] >= oldest]
                if not self._idle[key]:
                    del self._idle[key]
