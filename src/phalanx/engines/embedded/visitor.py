"""Questions to a daemon of this machine from who is no driver and no node, as the command line."""

from __future__ import annotations

import select
import time
from typing import Any

from phalanx.engines.embedded.client.requests import remote_error
from phalanx.engines.embedded.daemon_files import Announcement
from phalanx.engines.processes.connection import connect, same_user, wait_for
from phalanx.engines.processes.session import Session
from phalanx.protocol.node_messages import Reply, Request


def ask_daemon(
    session: Session, daemon: Announcement, method: str, *, timeout_s: float, **args: Any
) -> Any:
    """A head's answer to one question, from itself or through a node.

    Raises ConnectionError when the daemon is gone, TimeoutError when it does not answer, and the
    error that it answers with.
    """
    deadline = time.monotonic() + timeout_s
    who = f"the {daemon.kind} of process {daemon.pid}"
    try:
        connection = connect(session.socket_of(b"control" if daemon.kind == "head" else b"node"))
    except OSError as error:
        raise ConnectionError(f"{who} cannot be reached: {error.strerror}") from None
    try:
        same_user(connection.sock)
        connection.send(Request(1, method, args))
        while wait_for(connection.fileno, select.POLLIN, max(deadline - time.monotonic(), 0)):
            messages = connection.receive()
            if messages is None:
                raise ConnectionError(f"{who} ended before it answered")
            for message in messages:
                if isinstance(message, Reply):
                    if message.error is not None:
                        raise remote_error(*message.error)
                    return message.result
        raise TimeoutError(f"{who} did not answer within {timeout_s:g} s")
    finally:
        connection.close()
