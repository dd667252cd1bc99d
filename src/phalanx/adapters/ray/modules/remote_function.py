"""`ray.remote_function`, with the hook that Ray's Tune sets there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from phalanx.adapters.ray.modules.launching import described, strategy_in
from phalanx.api.functions import RemoteFunction
from phalanx.worker import launch_hooks

_task_launch_hook: Callable[..., None] | None = None
"""A function that is called with a description of the function, its resources and its strategy."""


def _launched(function: Any, resources: Mapping[str, float], group: str) -> None:
    if _task_launch_hook is not None:
        _task_launch_hook(described(function), dict(resources), strategy_in(group))


launch_hooks.of_tasks.append(_launched)

__all__ = ["RemoteFunction", "_task_launch_hook"]
