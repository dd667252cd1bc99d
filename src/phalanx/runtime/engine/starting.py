"""Which engines there are, and how a process gets one. Each is imported when it is first wanted."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable

from phalanx.engines.interface import Engine, EngineOptions, Output


def _start_embedded(options: EngineOptions, output: Output) -> Engine:
    from phalanx.engines.embedded.starting import start

    return start(options, output)


def _start_ray(options: EngineOptions, output: Output) -> Engine:
    if importlib.util.find_spec("ray") is None:
        raise ImportError("The Ray engine needs Ray, which is not here: pip install 'phalanx[ray]'")
    from phalanx.engines.ray.connecting import connect

    return connect(options, output)


_STARTS: dict[str, Callable[[EngineOptions, Output], Engine]] = {
    "embedded": _start_embedded,
    "ray": _start_ray,
}
NAMES = tuple(_STARTS)
"""Of the engines that there are."""


def start(options: EngineOptions, output: Output) -> Engine:
    """Use a cluster, or start one.

    Raises ConnectionError and AuthenticationError when that is not possible, SystemFailureError,
    ImportError for an engine that is not installed, and ValueError for options that do not go
    together.
    """
    return _STARTS[options.engine](options, output)


def attach() -> Engine | None:
    """The engine of a worker that another system has started; None anywhere else.

    A worker of Ray's has imported ray, and its driver uses Phalanx.
    """
    ray = sys.modules.get("ray")
    # Under the Ray names "ray" is a module of ours, which no file holds.
    if ray is None or ray.__name__ != "ray" or getattr(ray, "__file__", None) is None:
        return None
    from phalanx.engines.ray import connecting

    return connecting.attach()
