"""The process that starts the commands of jobs for a node agent.

A Ray worker has threads and must not fork; this process has one thread. When the agent's end of the
socket closes, for whatever reason, the process ends everything that it has started.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from typing import NamedTuple, NoReturn

import msgspec

from phalanx.runtime.os.environment import child_environment
from phalanx.runtime.os.file_modes import keep_private, mask_of_work
from phalanx.runtime.os.fork_server import ForkServer
from phalanx.runtime.os.session import Session
from phalanx.runtime.os.visible_devices import CUDA

_OF_WORKERS = ("RAY_JOB_ID", "RAY_RAYLET_PID", "RAY_NODE_ID")
"""Variables that Ray sets for its own workers. Commands must not see them."""


class CommandServer(NamedTuple):
    """A handle of the process that starts commands, with a socket to it. The process ends when the
    socket closes.
    """

    process: subprocess.Popen[bytes]
    socket: socket.socket


def start_command_server(session: Session) -> CommandServer:
    """Start the process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    variables = {k: v for k, v in child_environment().items() if k not in _OF_WORKERS}
    if not variables.get(CUDA):  # Ray may hide all devices from an actor that requests none
        variables.pop(CUDA, None)
    command = [sys.executable, "-m", __name__, str(theirs.fileno())]
    with theirs:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
            env=variables,
            umask=mask_of_work(),
        )
    assert process.stdin is not None
    with process.stdin as stdin:
        stdin.write(json.dumps(msgspec.to_builtins(session)).encode() + b"\n")
    return CommandServer(process, ours)


def main() -> NoReturn:
    """Serve until the agent is gone."""
    keep_private()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    session = msgspec.convert(json.loads(sys.stdin.readline()), Session)
    ForkServer(socket.socket(fileno=int(sys.argv[1])), session).serve()
    os._exit(0)


if __name__ == "__main__":
    main()
