"""Which engine an address means."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from urllib.parse import urlsplit

_RAYS = "ray:"
"""Addresses of Ray clusters begin so."""
_RAYS_NAMES = "PHALANX_COMPAT_RAY"
_OF_CLIENTS = "ray://"
"""Addresses of Ray's client servers begin so."""


def without_client(address: str | None) -> str | None:
    """Under Ray's names: a client server on this machine stands for the cluster that runs here, as
    a driver beside a node needs no server. Raises ConnectionError for one elsewhere.
    """
    named = os.environ.get("RAY_ADDRESS") if address in (None, "", "auto") else address
    if named is None or not named.startswith(_OF_CLIENTS) or os.environ.get(_RAYS_NAMES) != "1":
        return address
    host = urlsplit(named).hostname or ""
    if host == "localhost" or host in (socket.gethostname(), "::1") or host.startswith("127."):
        return "auto"
    raise ConnectionError(
        f"{named} is a client server on another machine, and Phalanx has none: a driver needs a "
        "node of its cluster beside it. Run `phalanx start --address HEAD:PORT` here, then the "
        "program without an address."
    )


def engine_and_address(address: str | None, engines: Sequence[str]) -> tuple[str, str | None]:
    """(which of these engines is meant, the address as it reads addresses).

    "ray:auto" is the cluster that runs here, "ray:HOST:PORT" another's control service, "ray:local"
    a Ray of this program's own, and "ray://HOST:PORT" Ray's client server. PHALANX_ADDRESS stands
    for an absent address, and PHALANX_ENGINE=ray makes any address one of Ray. Raises ValueError
    for an engine that there is not.
    """
    engine = os.environ.get("PHALANX_ENGINE") or "embedded"
    if engine not in engines:
        raise ValueError(f"PHALANX_ENGINE={engine!r} is none of {', '.join(engines)}.")
    if address in (None, "", "auto"):
        named = os.environ.get("PHALANX_ADDRESS") or address
        if engine == "ray" or (named or "").startswith(_RAYS):
            address = named
    if address is not None and address.startswith(_RAYS):
        rest = address.removeprefix(_RAYS)
        return "ray", address if rest.startswith("//") else rest or None
    return engine, address or None
