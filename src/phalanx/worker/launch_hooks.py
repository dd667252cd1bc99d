"""Hooks that are called before a task or an actor goes into a placement group.

Ray's Tune uses them to refuse work for which a trial's group has no room.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Hook = Callable[[Any, Mapping[str, float], str], None]
"""Called with the function or class, the resources that it requests, and its group's id in hex.

If the hook raises an error, the program that starts the work gets it.
"""

of_tasks: list[Hook] = []
"""Hooks that are called once for each function with its options, and not at each call."""
of_actors: list[Hook] = []


def launches(
    hooks: list[Hook], what: Any, resources: Mapping[str, float], strategy: Mapping[str, Any]
) -> None:
    """Call the hooks for a function or class that will be started in a placement group. Do nothing
    if `strategy` names no group.
    """
    group = strategy.get("group")
    if group:
        for hook in hooks:
            hook(what, resources, group)
