"""Connects a command on this machine with the process of the cluster that has a given id."""

from __future__ import annotations

import os
import select
import time

from phalanx.protocol.stream_messages import decode_body
from phalanx.runtime.daemons.daemon_files import REMOTE
from phalanx.runtime.daemons.finding import find_daemons
from phalanx.runtime.gateway.gate import request_dial
from phalanx.runtime.os.connection import Connection, connect
from phalanx.runtime.os.polling import wait_for

_REACH_S = 20.0


def reach_streams(address: str | None, process: bytes) -> Connection:
    """Return a connection to `process`, for messages about a program's streams (`stream_messages`).

    A connection to a process on this machine is direct. Any other connection goes through the gate
    of a node that runs here. Raises ConnectionError, and the errors of `find_daemons`.
    """
    troubles: list[str] = []
    for session, daemon in find_daemons(address):
        if daemon.kind == REMOTE or daemon.uid >= 0:
            continue  # streams go only to programs of the node's user
        path = session.socket_of(process)
        try:
            if os.path.exists(path):
                return Connection(connect(path).sock, decode=decode_body)
            if daemon.kind == "head":
                continue  # a head does not let nodes in
            sock = request_dial(session, process)
        except OSError as error:
            troubles.append(error.strerror or str(error))
            continue
        dialled = Connection(sock, is_dialling=True, decode=decode_body)
        deadline = time.monotonic() + _REACH_S
        while dialled.is_dialling:
            left_s = deadline - time.monotonic()
            is_there = left_s > 0 and wait_for(dialled.fileno, select.POLLIN, left_s)
            if not is_there or dialled.receive() is None:
                troubles.append(dialled.refusal or "no answer")
                dialled.close()
                break
        else:
            return dialled
    why = "; ".join(dict.fromkeys(troubles)) or "no node of the cluster runs on this machine"
    raise ConnectionError(f"the program's streams cannot be reached: {why}")
