"""`ray.remote_function`, with the hook that Ray's Tune sets there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from phalanx.adapters.ray.modules.launching import described, strategy_in
from phalanx.api.functions import RemoteFunction
from phalanx.worker import launch_hooks

_task_launch_hook: Callable[..., None] | None = None
"""The function that Ray's Tune sets, or None. It is called when a function and its options are
first used for tasks in a placement group, with a description of the function, the resources that a
task requests, and the strategy for the group. It raises an error to refuse the tasks.
"""


def _launched(function: Any, resources: Mapping[str, float], group: str) -> None:
    if _task_launch_hook is not None:
        _task_launch_hook(described(function), dict(resources), strategy_in(group))


launch_hooks.of_tasks.append(_launched)

__all__ = ["RemoteFunction", "_task_launch_hook"]
