"""The process that starts the commands of a Runner's node: the embedded engine's zygote, alone.

A Ray worker has threads of its own and must not fork; this process has one. It ends everything it
started when the Runner's end of the socket closes, however the Runner ends.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
from typing import NoReturn

import msgspec

from phalanx.engines.embedded.daemon_files import environment
from phalanx.engines.embedded.worker.zygote import Zygote
from phalanx.engines.processes.connection import Connection
from phalanx.engines.processes.session import Session
from phalanx.protocol.zygote_messages import decode_body

_OF_WORKERS = ("CUDA_VISIBLE_DEVICES", "RAY_JOB_ID", "RAY_RAYLET_PID", "RAY_NODE_ID")
"""What Ray sets for its own workers and commands are not to see."""


def start_children(session: Session) -> Connection:
    """Start the process; the connection to it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    variables = {k: v for k, v in environment().items() if k not in _OF_WORKERS}
    command = [sys.executable, "-m", __name__, str(theirs.fileno())]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        pass_fds=(theirs.fileno(),),
        start_new_session=True,
        env=variables,
    )
    theirs.close()
    assert process.stdin is not None
    process.stdin.write(json.dumps(msgspec.to_builtins(session)).encode() + b"\n")
    process.stdin.close()
    return Connection(ours, decode=decode_body)


def main() -> NoReturn:
    """Serve until the Runner is gone."""
    os.umask(0o077)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    session = msgspec.convert(json.loads(sys.stdin.readline()), Session)
    sock = socket.socket(fileno=int(sys.argv[1]))
    Zygote(sock, session, ctypes.CDLL(None, use_errno=True)).serve()
    os._exit(0)


if __name__ == "__main__":
    main()
