"""A forwarded port ends with its job, also while connections come."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from phalanx.cli import forwarding
from phalanx.runtime.os.connection import Connection


@pytest.mark.parametrize("slots", [0, 8])
def test_it_ends_with_the_job_though_a_connection_waits(monkeypatch: Any, slots: int) -> None:
    monkeypatch.setattr(forwarding, "_LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(forwarding, "MAX_CONNECTIONS", slots)
    looks = iter([False, True])

    def dial() -> Any:
        """Return the other side of a connection; another connection comes at the same time."""
        others.append(socket.create_connection(address))
        there, far = socket.socketpair()
        others.append(far)
        return Connection(there)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()
        others = [socket.create_connection(address)]
        forwarding.serve_port(listening, dial, lambda: next(looks))
        assert next(looks, None) is None
        assert len(others) == (3 if slots else 1)
    for one in others:
        one.close()
