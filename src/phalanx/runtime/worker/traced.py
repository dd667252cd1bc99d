"""Has what runs here stand beneath its caller in a trace, where the caller is traced, and be
profiled where that was asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phalanx.model.ids import task_id_bytes
from phalanx.runtime.engine import tracing
from phalanx.runtime.worker.profiling import profiler
from phalanx.worker.context import TaskContext


def watched(
    function: Callable[..., Any], name: str, kwargs: dict[str, Any], context: TaskContext
) -> Callable[..., Any]:
    """What to call in the place of a function, if it is traced or profiled."""
    if tracing.CARRIED in kwargs:
        function = traced(function, name, kwargs, context)
    profiling = profiler()
    return function if profiling is None else profiling.around(function, context)


def traced(
    function: Callable[..., Any], name: str, kwargs: dict[str, Any], context: TaskContext
) -> Callable[..., Any]:
    """What to call in the place of a function, with keyword arguments that carry a context: it is
    taken out of them."""
    carrier = kwargs.pop(tracing.CARRIED)
    if tracing.active is None:
        return function  # an actor of a program that is not traced, called by one that is
    attributes: dict[str, Any] = {
        "phalanx.job.id": context.lease.job.hex(),
        "phalanx.task.attempt": context.attempt,
        **{
            f"phalanx.devices.{resource}": devices
            for resource, devices in context.lease.devices.items()
        },
    }
    if context.owner:
        attributes["phalanx.task.id"] = task_id_bytes(context.owner, context.number).hex()
    return tracing.active.running(function, name, carrier, attributes)
