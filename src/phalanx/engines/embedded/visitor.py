"""Questions to a node of this machine from who is no driver, as the command line is."""

from __future__ import annotations

import select
import time
from typing import Any

from phalanx.engines.embedded.connection import connect, same_user, wait_for
from phalanx.engines.embedded.runtime import remote_error
from phalanx.engines.embedded.session import Session
from phalanx.protocol.messages import Reply, Request


def ask_node(session: Session, method: str, *, timeout_s: float, **args: Any) -> Any:
    """A node's answer to one question, which it may have to get from the head.

    Raises ConnectionError when the node is gone, TimeoutError when it does not answer, and the
    error that it answers with.
    """
    deadline = time.monotonic() + timeout_s
    try:
        node = connect(session.socket_of(b"node"))
    except OSError as error:
        raise ConnectionError(f"the node cannot be reached: {error.strerror}") from None
    try:
        same_user(node.sock)
        node.send(Request(1, method, args))
        while wait_for(node.fileno, select.POLLIN, max(deadline - time.monotonic(), 0)):
            messages = node.receive()
            if messages is None:
                raise ConnectionError("the node ended before it answered")
            for message in messages:
                if isinstance(message, Reply):
                    if message.error is not None:
                        raise remote_error(*message.error)
                    return message.result
        raise TimeoutError(f"no answer in {timeout_s:g} s")
    finally:
        node.close()
