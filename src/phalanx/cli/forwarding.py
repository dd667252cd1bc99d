"""Forwarding of a local port to a member's node: each connection is a step of the job."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable

from phalanx.errors import ProtocolError
from phalanx.protocol.stream_messages import Begin, Ended, Printed, StreamMessage, Typed
from phalanx.runtime.os.connection import Connection
from phalanx.runtime.os.polling import wait_for

_CHUNK = 1 << 16
_LOOK_EVERY_S = 1.0
MAX_CONNECTIONS = 256
"""The most connections at a time. Further connections wait."""


def serve_port(
    listening: socket.socket, dial: Callable[[], Connection], is_over: Callable[[], bool]
) -> None:
    """Serve connections. Each second, call `is_over`, and return if it is True. `dial` opens the
    other side of a connection.
    """
    slots = threading.BoundedSemaphore(MAX_CONNECTIONS)
    look_at = time.monotonic() + _LOOK_EVERY_S
    while True:
        has_come = wait_for(listening.fileno(), select.POLLIN, _LOOK_EVERY_S)
        may_serve = has_come and slots.acquire(timeout=_LOOK_EVERY_S)
        if time.monotonic() >= look_at:
            if is_over():
                return
            look_at = time.monotonic() + _LOOK_EVERY_S
        if not may_serve:
            continue
        here, _ = listening.accept()
        try:
            there = dial()
        except BaseException:
            here.close()
            raise
        threading.Thread(target=_join, args=(here, there, slots), daemon=True).start()


def _join(here: socket.socket, there: Connection, slots: threading.BoundedSemaphore) -> None:
    """Pass bytes in both directions until the remote side has ended. A slow side makes the other
    side wait.
    """
    try:
        with here, contextlib.suppress(OSError, ProtocolError):
            there.send(Begin())
            is_sending = True
            while True:
                poll = select.poll()
                if is_sending and not there.has_backlog:
                    poll.register(here, select.POLLIN)
                writes = select.POLLOUT if there.has_backlog else 0
                poll.register(there.fileno, select.POLLIN | writes)
                for fd, mask in poll.poll():
                    if fd == here.fileno():
                        data = here.recv(_CHUNK)
                        is_sending = bool(data)
                        there.send(Typed(data))
                        continue
                    if mask & select.POLLOUT:
                        there.drain()
                    if mask & ~select.POLLOUT and not _pass_on(there.receive(), here):
                        return
    finally:
        there.close()
        slots.release()


def _pass_on(messages: list[StreamMessage] | None, here: socket.socket) -> bool:
    """Send received bytes to `here`. Returns whether more bytes may follow."""
    for message in messages or ():
        if isinstance(message, Printed) and not message.is_error:
            here.sendall(message.data)
    return messages is not None and not any(isinstance(one, Ended) for one in messages)
