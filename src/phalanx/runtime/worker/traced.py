"""Adds tracing and profiling to functions.

If the caller is traced, the spans of the work here are children of the caller's span.
"""

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
    """Return a function that calls `function` and traces and profiles the call. Returns `function`
    itself if tracing and profiling are off.
    """
    if tracing.CARRIED in kwargs:
        function = traced(function, name, kwargs, context)
    profiling = profiler()
    return function if profiling is None else profiling.around(function, context)


def traced(
    function: Callable[..., Any], name: str, kwargs: dict[str, Any], context: TaskContext
) -> Callable[..., Any]:
    """Return a function that traces `function` as a child of the context in `kwargs`. Returns
    `function` itself if this process does not trace.

    The context is removed from `kwargs`.
    """
    carrier = kwargs.pop(tracing.CARRIED)
    if tracing.active is None:
        return function  # an actor of an untraced program was called by a traced program
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
