"""A fork server that replaces a killed one."""

from __future__ import annotations

import os
import socket
from typing import NoReturn

import msgspec

from phalanx.runtime.os.helpers import begin_helper, start_helper
from phalanx.runtime.os.session import Session


class Config(msgspec.Struct, kw_only=True):
    """The configuration of a fork server that replaces a killed one; see NodeConfig."""

    session: Session
    preload: list[str]
    lifeline: int
    socket: int


def start(session: Session, preload: list[str], lifeline: int) -> tuple[socket.socket, int]:
    """Start the fork server. Returns the socket to it and its pid. Raises OSError."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with theirs:
        number = theirs.fileno()
        config = Config(session=session, preload=preload, lifeline=lifeline, socket=number)
        return ours, start_helper(__name__, config, (number, lifeline))


def main() -> NoReturn:
    """Read the configuration from standard input, and serve."""
    config = begin_helper("fork server", Config)
    for fd in (config.socket, config.lifeline):
        os.set_inheritable(fd, False)
    from phalanx.runtime.worker import fork_server

    sock = socket.socket(fileno=config.socket)
    fork_server.run(sock, config.session, config.preload, config.lifeline)


if __name__ == "__main__":
    main()
