"""A gateway in a process of its own: `-m tests.system.gateway.child DESCRIPTOR`, JSON on stdin."""

from __future__ import annotations

import _pickle
import pickle
import socket
import sys

import msgspec

from phalanx.runtime.gateway.config import GatewayConfig
from phalanx.runtime.gateway.process import run
from phalanx.runtime.os.session import Session


class Start(msgspec.Struct):
    session: Session
    config: GatewayConfig


def _never(*_args, **_kwargs):
    raise AssertionError("a gateway opened a pickle")


if __name__ == "__main__":
    for module, name in [
        (pickle, "load"), (pickle, "loads"), (pickle, "Unpickler"), (pickle, "_Unpickler"),
        (_pickle, "load"), (_pickle, "loads"), (_pickle, "Unpickler"),
    ]:  # fmt: skip
        setattr(module, name, _never)
    start = msgspec.json.decode(sys.stdin.buffer.read(), type=Start)
    run(socket.socket(fileno=int(sys.argv[1])), start.session, start.config)
