"""Tools that programs build on tasks and actors, under Ray's names."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from phalanx.objects.serialization import deregister_serializer, register_serializer

# Imported at once, because as in Ray, `placement_group` is both a module of this package and a
# function of that module, and the package's attribute must be the function.
from phalanx.util.placement_group import (
    get_current_placement_group,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)

if TYPE_CHECKING:
    from phalanx.util.actor_pool import ActorPool
    from phalanx.util.check_serialize import inspect_serializability
    from phalanx.util.completion import as_completed, map_unordered
    from phalanx.util.executor import Executor
    from phalanx.util.named_actors import list_named_actors
    from phalanx.util.queue import Queue

_WHERE = {
    "ActorPool": "actor_pool",
    "Executor": "executor",
    "Queue": "queue",
    "as_completed": "completion",
    "inspect_serializability": "check_serialize",
    "list_named_actors": "named_actors",
    "map_unordered": "completion",
}

__all__ = [
    "ActorPool",
    "Executor",
    "Queue",
    "as_completed",
    "deregister_serializer",
    "get_current_placement_group",
    "get_placement_group",
    "inspect_serializability",
    "list_named_actors",
    "map_unordered",
    "placement_group",
    "placement_group_table",
    "register_serializer",
    "remove_placement_group",
]


def __getattr__(name: str) -> Any:
    """Import a public name, or a module of this package, at its first use."""
    module = f"{__name__}.{_WHERE.get(name, name)}"
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as missing:
        if missing.name != module:
            raise
        text = f"module {__name__!r} has no attribute {name!r}"
        if not name.startswith("_"):
            from phalanx.model.nearest import nearest

            text += nearest(name, _WHERE)
        raise AttributeError(text) from None
    return getattr(found, name) if name in _WHERE else found
