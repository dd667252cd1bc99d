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


STARTS: dict[str, Callable[[EngineOptions, Output], Engine]] = {
    "embedded": _start_embedded,
    "ray": _start_ray,
}


class Engines:
    """See EngineFactory."""

    names = tuple(STARTS)

    def start(self, options: EngineOptions, output: Output) -> Engine:
        """See EngineFactory."""
        return STARTS[options.engine](options, output)

    def attach(self) -> Engine | None:
        """See EngineFactory: a worker of Ray's has imported ray, and its driver uses Phalanx."""
        if "ray" not in sys.modules:
            return None
        from phalanx.engines.ray.connecting import attach

        return attach()
