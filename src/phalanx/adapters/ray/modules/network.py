"""`ray._private.services`, `ray._common.network_utils` and `ray.util.get_node_ip_address`:
functions about addresses.
"""

from __future__ import annotations

import socket

from phalanx.api.cluster import nodes
from phalanx.api.runtime_context import get_runtime_context
from phalanx.api.session import is_initialized

_OUTSIDE = ("192.0.2.1", 53)
"""An address that RFC 5737 reserves for documentation. Connecting a datagram socket to it sends
nothing, and only looks up the route.
"""


_known: dict[str, str] = {}
"""The address of this process's node, by the node's id. The address is cached because it does not
change, and programs such as Modin ask for it several times in each task.
"""


def get_node_ip_address(address: str = "") -> str:
    """Return the address at which other nodes reach this node."""
    if is_initialized():
        here = get_runtime_context().get_node_id()
        if here not in _known:
            rows = (row for row in nodes() if row["NodeID"] == here)
            _known.update((here, str(row["NodeManagerAddress"])) for row in rows)
        if here in _known:
            return _known[here]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_OUTSIDE)
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def resolve_ip_for_localhost(host: str) -> str:
    """Return this node's address if `host` means localhost, and otherwise `host`."""
    return get_node_ip_address() if host in ("localhost", "127.0.0.1", "::1") else host


def build_address(host: str, port: int | str) -> str:
    """Return HOST:PORT, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(address: str) -> tuple[str, str] | None:
    """Return (host, port) of HOST:PORT; None for a host alone."""
    host, colon, port = address.rpartition(":")
    if not colon or (":" in host and not host.startswith("[")):
        return None
    return host.strip("[]"), port


def find_free_port(family: int = socket.AF_INET) -> int:
    """Return a port at which nothing listens now."""
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def is_ipv6(host: str) -> bool:
    """Whether the host's address is an IPv6 address."""
    try:
        return socket.getaddrinfo(host, None)[0][0] == socket.AF_INET6
    except OSError:
        return ":" in host


def is_localhost(host: str) -> bool:
    """Whether the host means this machine only."""
    return host in ("localhost", "127.0.0.1", "::1")


def get_localhost_ip() -> str:
    """Return the loopback address."""
    return "127.0.0.1"


def get_all_interfaces_ip() -> str:
    """Return the address for listening on all interfaces."""
    return "0.0.0.0"  # nothing listens at this address here
