"""Reads the engine's name in an address that a program passes to `init`."""

from __future__ import annotations

import os

from phalanx.runtime.engine import starting as engines


def engine_and_address(address: str | None) -> tuple[str, str | None]:
    """Return the engine to which an address belongs, and the address in the form that the engine
    reads.

    An address that begins with an engine's name and a colon belongs to that engine. For Ray:
    "ray:auto" is the cluster that runs on this machine, "ray:HOST:PORT" is the cluster whose
    control service has this address, "ray:local" is a Ray of this program's own, and
    "ray://HOST:PORT" is Ray's client server. If `address` is None, the address in PHALANX_ADDRESS
    is used. With PHALANX_ENGINE=NAME, every address belongs to that engine. Raises ValueError for
    an engine that no installed package offers.
    """
    engine = os.environ.get("PHALANX_ENGINE") or engines.EMBEDDED
    if engine != engines.EMBEDDED and engine not in engines.names():
        raise ValueError(f"PHALANX_ENGINE={engine!r} must be one of: {', '.join(engines.names())}.")
    if address in (None, "", "auto"):
        named = os.environ.get("PHALANX_ADDRESS") or address
        if engine != engines.EMBEDDED or engines.engine_of(named or "") is not None:
            address = named
    if address is not None and (named_engine := engines.engine_of(address)) is not None:
        rest = address.removeprefix(f"{named_engine}:")
        return named_engine, address if rest.startswith("//") else rest or None
    return engine, address or None
