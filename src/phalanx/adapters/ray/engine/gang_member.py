"""The process of a gang's member: its view of the gang, and its end."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import ray

from phalanx.adapters.ray.scheduler.options import NAMESPACE, NODE_AGENT
from phalanx.model.ids import GangId
from phalanx.model.jobs.gang_view import EncodedView, GangView, decode_view
from phalanx.runtime.os.visible_devices import CUDA, named_devices

view: GangView | None = None
"""The gang of which this process is a member. A worker runs one member and ends with it."""


def in_gang(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `function` for a member: it runs with the gang's environment, and sees only the member's
    devices.
    """

    def run(encoded: EncodedView, group: GangId, index: int, *args: Any, **kwargs: Any) -> Any:
        agent = enter(encoded, group, index)
        try:
            return function(*args, **kwargs)
        finally:
            agent.left.remote(os.getpid())

    run.__name__, run.__qualname__ = function.__name__, function.__qualname__
    run.__module__, run.__doc__ = function.__module__, function.__doc__
    return run


def class_in_gang(cls: type) -> type:
    """Wrap `cls` for a gang: the process becomes a member before its constructor runs."""

    class Member(cls):  # type: ignore[misc]
        def __init__(
            self, encoded: EncodedView, group: GangId, index: int, *args: Any, **kwargs: Any
        ):
            enter(encoded, group, index)
            super().__init__(*args, **kwargs)

    Member.__name__, Member.__qualname__ = cls.__name__, cls.__qualname__
    Member.__module__, Member.__doc__ = cls.__module__, cls.__doc__
    return Member


def enter(encoded: EncodedView, group: GangId, index: int) -> Any:
    """Make this process a member of the gang whose view is `encoded`.

    Returns the handle of the node's agent, which warns and ends this process when the member is
    evicted.
    """
    global view
    view = decode_view(encoded)
    assert view is not None
    os.environ.update(view.env)
    # all devices of the node: Ray may hide them from work that requests none
    shown = os.environ.get(CUDA) or None
    os.environ[CUDA] = named_devices(shown, view.devices)
    name = NODE_AGENT + ray.get_runtime_context().get_node_id()
    agent: Any = ray.get_actor(name, namespace=NAMESPACE)
    ray.get(agent.adopt.remote(group, index, os.getpid()))
    return agent
