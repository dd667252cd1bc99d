"""Becoming a driver of a Ray cluster, and finding oneself inside one of its workers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import ray
from ray.experimental import internal_kv

from phalanx.engines.ray.engine import RayEngine
from phalanx.engines.ray.hierarchies import join_hierarchies
from phalanx.engines.ray.preflight import check_reachable, check_version, said
from phalanx.engines.ray.serializers import share_serializers

NAMESPACE = b"phalanx"
"""Of keys in Ray's internal table."""


class Connection(msgspec.Struct, kw_only=True):
    """How a driver connects. `address` as Ray reads it; None for a Ray of its own."""

    address: str | None
    namespace: str | None
    runtime_env: dict[str, Any] | None
    log_to_driver: bool
    queue: str
    priority: int
    options: dict[str, Any]
    """Amounts of a Ray of its own, and the options of `init` that Ray has, too."""


def connect(asked: Connection, warn: Callable[[str], None]) -> RayEngine:
    """Use a Ray cluster, or what this process is connected to already; `warn` says what takes its
    time. Raises ConnectionError and AuthenticationError, and ImportError for a Ray too old."""
    check_version()
    join_hierarchies()
    facts: dict[str, Any] = {}
    begins = not ray.is_initialized()
    if begins:
        check_reachable(asked.address)
        with said(asked.address, warn):
            context = ray.init(
                address=asked.address,
                namespace=asked.namespace,
                runtime_env=asked.runtime_env,
                log_to_driver=asked.log_to_driver,
                **asked.options,
            )
        facts = dict(getattr(context, "address_info", {}))
    share_serializers()
    engine = RayEngine(facts, asked.queue, asked.priority, begins)
    told = {"queue": asked.queue, "priority": asked.priority}
    internal_kv._internal_kv_put(_key(), json.dumps(told).encode(), namespace=NAMESPACE)
    return engine


def attach() -> RayEngine | None:
    """The engine of a Ray worker whose driver uses Phalanx on Ray; None anywhere else."""
    if not ray.is_initialized() or ray.get_runtime_context().worker.mode != ray.WORKER_MODE:
        return None
    told = internal_kv._internal_kv_get(_key(), namespace=NAMESPACE)
    if told is None:
        return None
    join_hierarchies()
    share_serializers()
    job = json.loads(told)
    return RayEngine({}, job["queue"], job["priority"])


def _key() -> bytes:
    job: str = ray.get_runtime_context().get_job_id()
    return b"driver:" + job.encode()
