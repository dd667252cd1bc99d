"""Ports of this machine."""

from __future__ import annotations

import socket


def is_port_free(port: int) -> bool:
    """Whether a server could listen on the port, at any address of this machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
