"""Which engine an address means."""

from __future__ import annotations

import os
from collections.abc import Sequence

_RAYS = "ray:"
"""Addresses of Ray clusters begin so."""


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
