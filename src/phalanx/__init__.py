"""Phalanx: tasks, actors and gangs on shared CPUs and GPUs.

The names here are Ray's, with Ray's meaning, so a Ray program can begin with `import phalanx as
ray`. The module of a name is imported when a program first uses the name. So `import phalanx` is
quick, and a node or a worker imports only the few of these modules that it needs.

Example:
    import phalanx

    @phalanx.remote
    def double(x: int) -> int:
        return 2 * x

    phalanx.init()
    assert phalanx.get(double.remote(21)) == 42
    phalanx.shutdown()
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from phalanx.moved import find_moved_modules

if TYPE_CHECKING:
    import cloudpickle

    from phalanx import actor, exceptions, runtime_context, runtime_env, util
    from phalanx.api.actors import ActorClass, method
    from phalanx.api.cluster import (
        available_resources,
        cluster_events,
        cluster_resources,
        cluster_status,
        nodes,
        timeline,
    )
    from phalanx.api.decorator import remote
    from phalanx.api.explaining import explain, planned_starts
    from phalanx.api.job import Job
    from phalanx.api.jobs import JobHandle, jobs, submit, submit_manifests
    from phalanx.api.logging_config import LoggingConfig
    from phalanx.api.objects import cancel, get, get_actor, kill, put, wait
    from phalanx.api.queues import (
        close_queue,
        create_queue,
        delete_queue,
        open_queue,
        queues,
        update_queue,
    )
    from phalanx.api.runtime_context import get_gpu_ids, get_runtime_context
    from phalanx.api.session import init, is_initialized, shutdown
    from phalanx.model.ids import (
        ActorID,
        JobID,
        NodeID,
        PlacementGroupID,
        TaskID,
        UniqueID,
        WorkerID,
    )
    from phalanx.objects.handle import ActorHandle
    from phalanx.objects.reference import ObjectID, ObjectRef
    from phalanx.objects.streams import DynamicObjectRefGenerator, ObjectRefGenerator

__version__ = "0.2.0.dev0"

_WHERE = {
    "ActorClass": "api.actors",
    "ActorHandle": "objects.handle",
    "ActorID": "model.ids",
    "DynamicObjectRefGenerator": "objects.streams",
    "Job": "api.job",
    "JobHandle": "api.jobs",
    "JobID": "model.ids",
    "LoggingConfig": "api.logging_config",
    "NodeID": "model.ids",
    "ObjectID": "objects.reference",
    "ObjectRef": "objects.reference",
    "ObjectRefGenerator": "objects.streams",
    "PlacementGroupID": "model.ids",
    "TaskID": "model.ids",
    "UniqueID": "model.ids",
    "WorkerID": "model.ids",
    "available_resources": "api.cluster",
    "cancel": "api.objects",
    "close_queue": "api.queues",
    "cluster_events": "api.cluster",
    "cluster_resources": "api.cluster",
    "cluster_status": "api.cluster",
    "create_queue": "api.queues",
    "delete_queue": "api.queues",
    "explain": "api.explaining",
    "get": "api.objects",
    "get_actor": "api.objects",
    "get_gpu_ids": "api.runtime_context",
    "get_runtime_context": "api.runtime_context",
    "init": "api.session",
    "is_initialized": "api.session",
    "jobs": "api.jobs",
    "kill": "api.objects",
    "method": "api.actors",
    "nodes": "api.cluster",
    "open_queue": "api.queues",
    "planned_starts": "api.explaining",
    "put": "api.objects",
    "queues": "api.queues",
    "remote": "api.decorator",
    "shutdown": "api.session",
    "submit": "api.jobs",
    "submit_manifests": "api.jobs",
    "timeline": "api.cluster",
    "update_queue": "api.queues",
    "wait": "api.objects",
}

__all__ = [
    "ActorClass",
    "ActorHandle",
    "ActorID",
    "DynamicObjectRefGenerator",
    "Job",
    "JobHandle",
    "JobID",
    "LoggingConfig",
    "NodeID",
    "ObjectID",
    "ObjectRef",
    "ObjectRefGenerator",
    "PlacementGroupID",
    "TaskID",
    "UniqueID",
    "WorkerID",
    "__version__",
    "actor",
    "available_resources",
    "cancel",
    "close_queue",
    "cloudpickle",
    "cluster_events",
    "cluster_resources",
    "cluster_status",
    "create_queue",
    "delete_queue",
    "exceptions",
    "explain",
    "get",
    "get_actor",
    "get_gpu_ids",
    "get_runtime_context",
    "init",
    "is_initialized",
    "jobs",
    "kill",
    "method",
    "nodes",
    "open_queue",
    "planned_starts",
    "put",
    "queues",
    "remote",
    "runtime_context",
    "runtime_env",
    "shutdown",
    "submit",
    "submit_manifests",
    "timeline",
    "update_queue",
    "util",
    "wait",
]


if not TYPE_CHECKING:  # a type checker reports a name that is not above as an error

    def __getattr__(name):
        """Import a public name, or a module of this package, at its first use."""
        if name in _WHERE:
            found = getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
        else:
            found = _module(name)
        globals()[name] = found
        return found


def _module(name: str) -> ModuleType:
    """Import and return the module `phalanx.name`. The name `cloudpickle` stands for the installed
    package, as in Ray.
    """
    whole = name if name == "cloudpickle" else f"{__name__}.{name}"
    try:
        if name.startswith("__"):
            raise ModuleNotFoundError(name=whole)
        return import_module(whole)
    except ModuleNotFoundError as missing:
        if missing.name != whole:
            raise
        raise AttributeError(_no_attribute(name)) from None


def _no_attribute(name: str) -> str:
    """Return Python's sentence for an unknown attribute, with the public name that was probably
    meant.
    """
    text = f"module {__name__!r} has no attribute {name!r}"
    if name.startswith("_"):
        return text
    from phalanx.model.nearest import nearest

    return text + nearest(name, __all__)


def __dir__() -> list[str]:
    """Return all names, including public names that were not imported yet."""
    return sorted({*globals(), *__all__})


find_moved_modules()

# In a worker of Phalanx on Ray, `except` clauses must know Ray's errors from here on.
if "ray" in sys.modules:
    from phalanx.api.session import attached_engine

    attached_engine()
