"""Ports for servers that tests start on a given port because they cannot use port 0."""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path

import psutil

_LOWEST = 10_000
_RANDOM = random.SystemRandom()


def free_ports(count: int) -> list[int]:
    """Return different loopback ports at which nothing listens.

    The ports lie outside the range from which the kernel takes ports for connections and for port
    0. A port of that range may be another program's before the server of the test starts.
    """
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    outside = [*range(_LOWEST, first), *range(last + 1, 1 << 16)] or [0]
    with contextlib.ExitStack() as probes:
        found: list[int] = []
        while len(found) < count:
            probe = probes.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", _RANDOM.choice(outside)))
                found.append(int(probe.getsockname()[1]))
        return found


def free_port() -> int:
    """Return a loopback port at which nothing listens; see `free_ports`."""
    return free_ports(1)[0]


def own_address() -> str:
    """Return an address of this machine that other machines could reach; "" if it has none. Data
    that is sent there stays on this machine.
    """
    for addresses in psutil.net_if_addrs().values():
        for address in addresses:
            if address.family == socket.AF_INET and not address.address.startswith("127."):
                return str(address.address)
    return ""
