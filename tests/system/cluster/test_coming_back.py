"""A node that was declared dead joins again under another id, even if it finds no head at first."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.polling import eventually

from phalanx.runtime.daemons.starting import HeadOptions, NodeOptions, node_config, start_head
from phalanx.runtime.node.config import NodeConfig
from phalanx.runtime.node.process import as_another
from phalanx.runtime.os import session as sessions


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(prefix="px-", dir="/tmp") as made:  # sockets lie in it
        yield Path(made)


@pytest.fixture
def port():
    """Yield a port at which nothing listens until a head does."""
    with socket.socket() as reserved:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]


def test_it_waits_for_a_head_that_it_does_not_find(folder, port):
    more: dict[str, Any] = {
        "temp_dir": str(folder / "r"),
        "token_file": str(folder / "token"),
        "is_private": True,
    }
    ends, alive = os.pipe()
    start_head(HeadOptions(**more), ends).kill()  # so that there is a token
    options = NodeOptions(
        head=f"127.0.0.1:{port}", resources={"CPU": 1.0}, object_store_bytes=1 << 20, **more
    )
    given_up = msgspec.convert(node_config(options, sessions.create(more["temp_dir"])), NodeConfig)
    again = as_another(given_up, given_up.session)
    log = folder / "node.log"
    again = msgspec.structs.replace(again, log=str(log), parent_fd=ends)
    node = subprocess.Popen(
        [sys.executable, "-m", "phalanx.runtime.node.process", "-1"],
        stdin=subprocess.PIPE,
        pass_fds=(ends,),
        start_new_session=True,
    )
    try:
        assert node.stdin is not None
        with node.stdin:
            node.stdin.write(json.dumps(msgspec.to_builtins(again)).encode() + b"\n")
        eventually(lambda: log.exists() and "The node keeps trying" in log.read_text())
        head = start_head(HeadOptions(port=port, **more), ends)
        eventually(lambda: "The head is back" in log.read_text())
        head.kill()
    finally:
        os.killpg(node.pid, signal.SIGKILL)
        node.wait()
        os.close(ends)
        os.close(alive)
