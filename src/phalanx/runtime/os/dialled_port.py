"""Connects the input and output of a program with a port of its node. `phalanx forward` runs the
program there.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket

from phalanx.model.exit_codes import NOT_STARTED

_CHUNK = 1 << 16
_IN, _OUT = 0, 1


def become_dialled_port(port: int) -> int:
    """Pass on bytes between this process's streams and 127.0.0.1 until both ends have closed."""
    try:
        sock = socket.create_connection(("127.0.0.1", port))
    except OSError as error:
        os.write(2, f"phalanx: port {port} of the member's node: {error.strerror}\n".encode())
        return NOT_STARTED
    is_sending = True
    while True:
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        if is_sending:
            poll.register(_IN, select.POLLIN)
        for fd, _ in poll.poll():
            if fd == _IN:
                data = os.read(_IN, _CHUNK)
                if not data:
                    is_sending = False
                    with contextlib.suppress(OSError):
                        sock.shutdown(socket.SHUT_WR)
                sock.sendall(data)
            else:
                data = sock.recv(_CHUNK)
                if not data:
                    return 0
                while data:
                    data = data[os.write(_OUT, data) :]
