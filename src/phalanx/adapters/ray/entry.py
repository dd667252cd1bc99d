"""The functions by which the core reaches the Ray engine. They import ray when they are called."""

from __future__ import annotations

import importlib.util
from typing import Any, TypeVar

from phalanx.protocol.requests.request import Request
from phalanx.runtime.engine import dialect
from phalanx.runtime.engine.interface import Engine, EngineOptions, Output

R = TypeVar("R")


def connect(options: EngineOptions, output: Output) -> Engine:
    """Connect to a Ray cluster, or start one for this program.

    Raises ImportError if ray is not installed, RuntimeError if Phalanx runs under Ray's names, and
    the errors of `engine.connecting.connect`.
    """
    if dialect.current() is not None:
        raise RuntimeError(
            "The Ray engine needs Ray itself, and under Ray's names `import ray` is Phalanx: "
            "write `import phalanx as ray` in the program instead."
        )
    if importlib.util.find_spec("ray") is None:
        raise ImportError(
            "The Ray engine needs Ray, which is not installed: pip install 'phalanx[ray]'. A "
            "cluster of Phalanx is reached by HOST:PORT, or without a node by phalanx://HOST:PORT."
        )
    from phalanx.adapters.ray.engine import connecting

    return connecting.connect(options, output)


def attach() -> Engine | None:
    """Return the engine, if this process is a Ray worker whose driver uses Phalanx on Ray; None in
    any other process.
    """
    from phalanx.adapters.ray.engine import connecting

    return connecting.attach()


def ask(address: str, request: Request[R], timeout_s: float) -> R:
    """Return the scheduler's answer to a request.

    Raises ConnectionError if no scheduler runs or ray is not installed.
    """
    _need_ray(address)
    from phalanx.adapters.ray.scheduler.visitor import ask_cluster

    return ask_cluster(address, request, timeout_s)


def start_scheduler(address: str, options: dict[str, Any]) -> str:
    """Start the scheduler with these options, which are fields of `SchedulerOptions`.

    Returns a message for display. Raises ConnectionError, and ValueError for unknown options.
    """
    _need_ray(address)
    from phalanx.adapters.ray.scheduler.options import SchedulerOptions
    from phalanx.adapters.ray.scheduler.visitor import start_scheduler

    if start_scheduler(address, SchedulerOptions(**options)):
        return f"Started the scheduler on the Ray cluster at {address}."
    return (
        f"A scheduler already runs there, with its own options. `phalanx stop --address {address}` "
        "ends that scheduler and all its jobs."
    )


def stop_scheduler(address: str) -> str:
    """End the scheduler and all work that it runs. Returns a message for display. Raises
    ConnectionError.
    """
    _need_ray(address)
    from phalanx.adapters.ray.scheduler.visitor import stop_scheduler

    count = stop_scheduler(address)
    if not count:
        return "No Phalanx scheduler runs on that cluster."
    return f"Ended the scheduler and the agents of {count - 1} nodes."


def _need_ray(address: str) -> None:
    if importlib.util.find_spec("ray") is None:
        raise ConnectionError(
            f"{address} is a Ray cluster. Install ray to reach it: pip install 'phalanx[ray]'."
        )
