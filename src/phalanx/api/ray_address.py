"""Addresses that mean a Ray cluster, and what of `init` goes there."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from phalanx.engines.interface import Engine

ENGINES = ("", "embedded", "ray")
_SCHEME = "ray:"


def ray_address(address: str | None) -> tuple[bool, str | None]:
    """(whether the Ray engine is meant, the address as Ray reads it).

    "ray:auto" is the cluster that runs here, "ray:HOST:PORT" another's control service, "ray:local"
    a Ray of this program's own, and "ray://HOST:PORT" Ray's client server. PHALANX_ADDRESS stands
    for an absent address, and PHALANX_ENGINE=ray makes any address one of Ray. Raises ValueError
    for an engine that there is not.
    """
    engine = os.environ.get("PHALANX_ENGINE", "")
    if engine not in ENGINES:
        raise ValueError(f"PHALANX_ENGINE={engine!r} is none of {', '.join(ENGINES[1:])}.")
    if address in (None, "", "auto"):
        address = os.environ.get("PHALANX_ADDRESS") or address
    if address is not None and address.startswith(_SCHEME):
        rest = address.removeprefix(_SCHEME)
        return True, address if rest.startswith("//") else rest or None
    return engine == "ray", address or None


def connect_ray(
    address: str | None,
    amounts: dict[str, Any],
    *,
    namespace: str | None,
    runtime_env: dict[str, Any] | None,
    log_to_driver: bool,
    queue: str,
    priority: int,
    options: dict[str, Any],
    warn: Callable[[str], None],
) -> Engine:
    """Become a driver of a Ray cluster. Raises ImportError without Ray, ConnectionError and
    AuthenticationError."""
    if importlib.util.find_spec("ray") is None:
        raise ImportError("The Ray engine needs Ray, which is not here: pip install 'phalanx[ray]'")
    from phalanx.engines.ray.connecting import Connection, connect

    given = {key: value for key, value in amounts.items() if value is not None}
    return connect(
        Connection(
            address=address,
            namespace=namespace,
            runtime_env=runtime_env,
            log_to_driver=log_to_driver,
            queue=queue,
            priority=priority,
            options={**given, **options},
        ),
        warn,
    )
