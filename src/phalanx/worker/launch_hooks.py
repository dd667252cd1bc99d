"""Who wants to hear of a task or an actor before it goes into a placement group: Ray's Tune, which
refuses what the group of a trial has no room for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Hook = Callable[[Any, Mapping[str, float], str], None]
"""Called with the function or the class, what it asks for, and the group's id in hex. What it
raises goes to who starts it."""

of_tasks: list[Hook] = []
"""Heard once for each function with its options, not at every call."""
of_actors: list[Hook] = []


def launches(
    hooks: list[Hook], what: Any, resources: Mapping[str, float], strategy: Mapping[str, Any]
) -> None:
    """This is to be started by this strategy."""
    group = strategy.get("group")
    if group:
        for hook in hooks:
            hook(what, resources, group)
