"""The functions that start an actor of each system. A system's modules are imported only when its
actor is requested.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

from phalanx_benchmarks.actor_systems.actor_system import ActorSystem


def maker_of(system: str) -> Callable[[], ActorSystem]:
    """Return a function that starts an actor of that system.

    Raises ImportError if the system is not installed, and ValueError for an unknown name.
    """
    maker: Callable[[], ActorSystem]
    match system:
        case "phalanx" | "ray":
            from phalanx_benchmarks.actor_systems.engines import Engine

            api = importlib.import_module(system)

            def maker() -> ActorSystem:
                return Engine(api)
        case "charm4py":
            from phalanx_benchmarks.actor_systems.charm import make as maker
        case "xoscar":
            from phalanx_benchmarks.actor_systems.xoscar_pool import make as maker
        case _:
            raise ValueError(f"unknown system {system!r}")
    return maker
