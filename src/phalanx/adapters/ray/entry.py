"""The Ray engine as the core reaches it: ray itself is imported when one of these is called."""

from __future__ import annotations

import importlib.util
from typing import Any, TypeVar

from phalanx.protocol.requests.request import Request
from phalanx.runtime.engine import dialect
from phalanx.runtime.engine.interface import Engine, EngineOptions, Output

R = TypeVar("R")


def connect(options: EngineOptions, output: Output) -> Engine:
    """Use a Ray cluster, or start a Ray of this program's own. Raises ImportError where ray is not
    installed, RuntimeError under Ray's names, and what `engine.connecting.connect` raises."""
    if dialect.current() is not None:
        raise RuntimeError(
            "The Ray engine needs Ray itself, and under Ray's names `import ray` is Phalanx: "
            "write `import phalanx as ray` in the program instead."
        )
    if importlib.util.find_spec("ray") is None:
        raise ImportError("The Ray engine needs Ray, which is not here: pip install 'phalanx[ray]'")
    from phalanx.adapters.ray.engine import connecting

    return connecting.connect(options, output)


def attach() -> Engine | None:
    """The engine of a Ray worker whose driver uses Phalanx on Ray; None anywhere else."""
    from phalanx.adapters.ray.engine import connecting

    return connecting.attach()


def ask(address: str, request: Request[R], timeout_s: float) -> R:
    """The scheduler's answer. Raises ConnectionError where there is none, or no ray installed."""
    _need_ray(address)
    from phalanx.adapters.ray.scheduler.visitor import ask_cluster

    return ask_cluster(address, request, timeout_s)


def start_scheduler(address: str, options: dict[str, Any]) -> str:
    """Start the scheduler with these options: fields of `SchedulerOptions`. Raises ConnectionError,
    and ValueError for options that are none."""
    _need_ray(address)
    from phalanx.adapters.ray.scheduler.options import SchedulerOptions
    from phalanx.adapters.ray.scheduler.visitor import start_scheduler

    if start_scheduler(address, SchedulerOptions(**options)):
        return f"The scheduler runs on the Ray cluster at {address}."
    return (
        f"A scheduler runs there already, with its own options. `phalanx stop --address {address}` "
        "ends it and all jobs that it runs."
    )


def stop_scheduler(address: str) -> str:
    """End the scheduler and all that it runs. Raises ConnectionError."""
    _need_ray(address)
    from phalanx.adapters.ray.scheduler.visitor import stop_scheduler

    count = stop_scheduler(address)
    if not count:
        return "No scheduler of Phalanx runs there."
    return f"Ended the scheduler and the agents of {count - 1} nodes."


def _need_ray(address: str) -> None:
    if importlib.util.find_spec("ray") is None:
        raise ConnectionError(
            f"{address} is a Ray cluster, for which ray is needed: pip install 'phalanx[ray]'."
        )
