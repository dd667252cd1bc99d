"""Becoming a driver of a Ray cluster, and finding oneself inside one of its workers."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import ray
from ray.experimental import internal_kv

from phalanx.adapters.ray.engine.engine import RayEngine
from phalanx.adapters.ray.engine.hierarchies import join_hierarchies
from phalanx.adapters.ray.engine.preflight import check_reachable, check_version, said
from phalanx.adapters.ray.engine.serializers import share_serializers
from phalanx.runtime.engine.interface import EngineOptions, Output

NAMESPACE = b"phalanx"
"""Of keys in Ray's internal table."""
AMOUNTS = (
    *("num_cpus", "num_gpus", "resources", "labels", "object_store_memory"),
    "include_dashboard",
)
"""Of a Ray of the program's own; what is None is left to Ray."""


def connect(options: EngineOptions, output: Output) -> RayEngine:
    """Use a Ray cluster, or what this process is connected to already. Raises ConnectionError and
    AuthenticationError, ValueError for a placement, and ImportError for a Ray too old."""
    check_version()
    join_hierarchies()
    facts: dict[str, Any] = {}
    if options.placement is not None:
        raise ValueError(
            "On Ray the scheduler has a policy of its own: `phalanx start --address ray:auto "
            "--placement ...` starts it with one."
        )
    begins = not ray.is_initialized()
    if begins:
        given = msgspec.structs.asdict(options)
        check_reachable(options.address)
        with said(options.address, output.warn):
            context = ray.init(
                address=options.address,
                namespace=options.namespace,
                runtime_env=options.runtime_env,
                log_to_driver=options.log_to_driver,
                **{name: given[name] for name in AMOUNTS if given[name] is not None},
                **options.more,
            )
        facts = dict(getattr(context, "address_info", {}))
    share_serializers()
    engine = RayEngine(facts, options.queue, options.priority, begins)
    job = {"queue": options.queue, "priority": options.priority}
    internal_kv._internal_kv_put(_key(), json.dumps(job).encode(), namespace=NAMESPACE)
    return engine


def attach() -> RayEngine | None:
    """The engine of a Ray worker whose driver uses Phalanx on Ray; None anywhere else."""
    if not ray.is_initialized() or ray.get_runtime_context().worker.mode != ray.WORKER_MODE:
        return None
    row = internal_kv._internal_kv_get(_key(), namespace=NAMESPACE)
    if row is None:
        return None
    join_hierarchies()
    share_serializers()
    job = json.loads(row)
    return RayEngine({}, job["queue"], job["priority"])


def _key() -> bytes:
    job: str = ray.get_runtime_context().get_job_id()
    return b"driver:" + job.encode()
