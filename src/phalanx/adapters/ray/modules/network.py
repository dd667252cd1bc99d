"""`ray._private.services`, `ray._common.network_utils`, `ray.util.get_node_ip_address`."""

from __future__ import annotations

import socket

from phalanx.api.cluster import nodes
from phalanx.api.runtime_context import get_runtime_context
from phalanx.api.session import is_initialized

_OUTSIDE = ("192.0.2.1", 53)
"""An address for documentation (RFC 5737): a datagram socket only looks up the way there."""


_known: dict[str, str] = {}
"""The address of the node that this process is on, by its id: it stays, and programs such as Modin
ask for it several times in each task."""


def get_node_ip_address(address: str = "") -> str:
    """The address under which other nodes reach this one."""
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
    """This node's address in place of localhost."""
    return get_node_ip_address() if host in ("localhost", "127.0.0.1", "::1") else host


def build_address(host: str, port: int | str) -> str:
    """HOST:PORT, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(address: str) -> tuple[str, str] | None:
    """(host, port) of HOST:PORT; None for a host alone."""
    host, colon, port = address.rpartition(":")
    if not colon or (":" in host and not host.startswith("[")):
        return None
    return host.strip("[]"), port


def find_free_port(family: int = socket.AF_INET) -> int:
    """A port that nothing listens at now."""
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def is_ipv6(host: str) -> bool:
    """Whether the host's address is one of IPv6."""
    try:
        return socket.getaddrinfo(host, None)[0][0] == socket.AF_INET6
    except OSError:
        return ":" in host


def is_localhost(host: str) -> bool:
    """Whether it means this machine alone."""
    return host in ("localhost", "127.0.0.1", "::1")


def get_localhost_ip() -> str:
    """The loopback address."""
    return "127.0.0.1"


def get_all_interfaces_ip() -> str:
    """The address to listen at on all interfaces."""
    return "0.0.0.0"  # said, not used
