"""Starts a gateway: forks it from the process that it serves."""

from __future__ import annotations

import os
import socket

from phalanx.runtime.gateway.config import GatewayConfig
from phalanx.runtime.os.session import Session


def start_gateway(config: GatewayConfig, session: Session) -> socket.socket:
    """Fork the gateway; return this process's end of the channel to it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    if os.fork() == 0:
        ours.close()
        from phalanx.runtime.gateway import process

        process.run(theirs, session, config)
    theirs.close()
    return ours
