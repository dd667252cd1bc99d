"""`ray.actor`, with the hook that Ray's Tune sets there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from phalanx.actor import (
    ActorClass,
    ActorClassInheritanceException,
    ActorHandle,
    ActorMethod,
    ActorProxy,
    exit_actor,
    method,
    typed,
)
from phalanx.adapters.ray.modules.launching import described, strategy_in
from phalanx.worker import launch_hooks

_actor_launch_hook: Callable[..., None] | None = None
"""The function that Ray's Tune sets, or None. It is called before an actor is started in a
placement group, with a description of the class, the resources that the actor requests, and the
strategy for its group. The function raises an error to refuse the actor.
"""


def _launched(cls: Any, resources: Mapping[str, float], group: str) -> None:
    if _actor_launch_hook is not None:
        _actor_launch_hook(described(cls), dict(resources), strategy_in(group))


launch_hooks.of_actors.append(_launched)

__all__ = [
    "ActorClass",
    "ActorClassInheritanceException",
    "ActorHandle",
    "ActorMethod",
    "ActorProxy",
    "_actor_launch_hook",
    "exit_actor",
    "method",
    "typed",
]
