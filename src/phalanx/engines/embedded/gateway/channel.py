"""The socket pair between a node and its gateway, as both ends see it."""

from __future__ import annotations

import socket
from typing import Any

from phalanx.engines.processes.connection import Connection
from phalanx.protocol.frames import FrameReader
from phalanx.protocol.gateway_messages import decode_body


class GatewayChannel(Connection):
    """A connection whose messages are those of `protocol.gateway_messages`."""

    __slots__ = ()

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self._reader: Any = FrameReader(decode=decode_body)
