"""What programs often build on tasks and actors, under the names that Ray gives it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from phalanx.util.actor_pool import ActorPool
    from phalanx.util.check_serialize import inspect_serializability
    from phalanx.util.completion import as_completed, map_unordered
    from phalanx.util.executor import Executor
    from phalanx.util.queue import Queue

_WHERE = {
    "ActorPool": "actor_pool",
    "Executor": "executor",
    "Queue": "queue",
    "as_completed": "completion",
    "inspect_serializability": "check_serialize",
    "map_unordered": "completion",
}

__all__ = [
    "ActorPool",
    "Executor",
    "Queue",
    "as_completed",
    "inspect_serializability",
    "map_unordered",
]


def __getattr__(name: str) -> Any:
    """Import a public name, or a module of this package, when it is first asked for."""
    module = f"{__name__}.{_WHERE.get(name, name)}"
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as missing:
        if missing.name != module:
            raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    return getattr(found, name) if name in _WHERE else found
