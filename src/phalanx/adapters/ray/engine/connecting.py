"""The connection of a program to a Ray cluster: as a driver, or inside one of Ray's workers."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import ray
from ray.experimental import internal_kv

from phalanx.adapters.ray.engine.engine import RayEngine
from phalanx.adapters.ray.engine.hierarchies import join_hierarchies
from phalanx.adapters.ray.engine.preflight import check_reachable, check_version, explained_errors
from phalanx.adapters.ray.engine.serializers import share_serializers
from phalanx.runtime.engine.interface import EngineOptions, Output

NAMESPACE = b"phalanx"
"""The namespace of Phalanx's keys in Ray's internal key-value table."""
AMOUNTS = (
    *("num_cpus", "num_gpus", "resources", "labels", "object_store_memory"),
    "include_dashboard",
)
"""Options for the size of a Ray cluster that is started for this program. If an option is None, Ray
chooses its value.
"""


def connect(options: EngineOptions, output: Output) -> RayEngine:
    """Connect to a Ray cluster, and return the engine. If this process is already connected to a
    cluster, that cluster is used. Raises ConnectionError and AuthenticationError. Raises ValueError
    if the options name a placement policy, and ImportError for a version of Ray that is too old.
    """
    check_version()
    join_hierarchies()
    facts: dict[str, Any] = {}
    if options.placement is not None:
        raise ValueError(
            "A program on Ray cannot choose the placement policy, because the scheduler has its "
            "own: `phalanx start --address ray:auto "
            "--placement ...` starts it with one."
        )
    begins = not ray.is_initialized()
    if begins:
        given = msgspec.structs.asdict(options)
        check_reachable(options.address)
        with explained_errors(options.address, output.warn):
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
    """Return the engine, if this process is a Ray worker whose driver uses Phalanx on Ray; None in
    any other process.
    """
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
