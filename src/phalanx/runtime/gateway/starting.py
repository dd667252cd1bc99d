"""Starts the gateway of a node or head. The node or head forks its first gateway. If a gateway is
killed, another one is started, as a program of its own.
"""

from __future__ import annotations

import contextlib
import os
import socket
from typing import NoReturn

import msgspec

from phalanx.runtime.gateway.config import GatewayConfig
from phalanx.runtime.gateway.gate import gate_of
from phalanx.runtime.os.helpers import begin_helper, end_helper, how_ended, start_helper
from phalanx.runtime.os.session import Session


class _Again(msgspec.Struct, kw_only=True):
    """The configuration of a gateway that replaces a killed one."""

    session: Session
    gateway: GatewayConfig
    socket: int


class GatewayStarter:
    """The gateway of one node or head."""

    def __init__(self, config: GatewayConfig, session: Session) -> None:
        self._config = config
        self._session = session
        self.pid = 0
        self.how_lost = ""
        """A clause that says how the last gateway has ended."""

    def note_end(self) -> None:
        """Note how the gateway has ended, because its channel has closed."""
        self.how_lost = how_ended(self.pid)

    def start(self) -> socket.socket:
        """Fork the gateway. Returns this process's end of the channel to the gateway."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.pid = os.fork()
        if self.pid == 0:
            ours.close()
            from phalanx.runtime.gateway import process

            process.run(theirs, self._session, self._config)
        theirs.close()
        return ours

    def start_again(self, port: int) -> socket.socket:
        """Start another gateway at the same port, because the last one has ended.
        Raises OSError.
        """
        end_helper(self.pid)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(gate_of(self._session))
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            number = theirs.fileno()
            config = msgspec.structs.replace(self._config, port=port)
            again = _Again(session=self._session, gateway=config, socket=number)
            self.pid = start_helper(__name__, again, (number,))
        return ours

    def end(self) -> None:
        """End the gateway, so that its port is free."""
        end_helper(self.pid)


def main() -> NoReturn:
    """Read the configuration from standard input, and serve."""
    config = begin_helper("gateway", _Again)
    from phalanx.runtime.gateway import process

    process.run(socket.socket(fileno=config.socket), config.session, config.gateway)


if __name__ == "__main__":
    main()
