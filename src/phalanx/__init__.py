"""Phalanx: tasks, actors and gangs on shared CPUs and GPUs.

The names here are Ray's, with Ray's meaning: `import phalanx as ray` is a good first line.
"""

from __future__ import annotations

import sys

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
from phalanx.api.session import init, is_initialized, present, shutdown
from phalanx.engines.interface import set_factory
from phalanx.engines.starting import Engines
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
from phalanx.objects.reference import ObjectRef
from phalanx.objects.streams import DynamicObjectRefGenerator, ObjectRefGenerator

ObjectID = ObjectRef

set_factory(Engines())

if "ray" in sys.modules:  # in a Ray worker of ours, `except` must know Ray's errors from here on
    present()

__version__ = "0.1.0"

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
