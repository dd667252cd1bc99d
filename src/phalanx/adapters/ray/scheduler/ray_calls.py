"""All uses of Ray that go beyond its public interface. They were tried with Ray 2.49 and 2.60. They
concern the internal key-value store, the available amounts of each node, the table of drivers'
jobs, and whether an actor is restarting.
"""

from __future__ import annotations

from typing import Any

import ray


class InternalKv:
    """Ray's internal key-value store: a namespace of byte strings that Ray's head keeps."""

    def __init__(self, namespace: bytes) -> None:
        self._namespace = namespace

    def put_new(self, key: bytes, value: bytes) -> bool:
        """Store a value unless the key has one. Returns whether the value was stored."""
        from ray.experimental.internal_kv import _internal_kv_put

        existed = _internal_kv_put(key, value, overwrite=False, namespace=self._namespace)
        return not existed

    def put(self, key: bytes, value: bytes) -> None:
        """Store a value in place of any earlier one."""
        from ray.experimental.internal_kv import _internal_kv_put

        _internal_kv_put(key, value, overwrite=True, namespace=self._namespace)

    def get(self, key: bytes) -> bytes | None:
        """Return a value; None when the key has none."""
        from ray.experimental.internal_kv import _internal_kv_get

        found: bytes | None = _internal_kv_get(key, namespace=self._namespace)
        return found

    def keys(self, prefix: bytes) -> list[bytes]:
        """Return all keys with this prefix, in any order."""
        from ray.experimental.internal_kv import _internal_kv_list

        return list(_internal_kv_list(prefix, namespace=self._namespace))

    def delete_all(self, prefix: bytes) -> None:
        """Delete every value whose key has this prefix."""
        from ray.experimental.internal_kv import _internal_kv_del

        _internal_kv_del(prefix, del_by_prefix=True, namespace=self._namespace)


def available_by_node() -> dict[str, dict[str, float]]:
    """Return the available amounts of each living node, by the node's id. The amounts are at most
    about 0.1 s old.
    """
    from ray._private.state import available_resources_per_node

    found: dict[str, dict[str, float]] = available_resources_per_node()
    return found


def nodes() -> list[dict[str, Any]]:
    """Return Ray's nodes, including those that died recently."""
    rows: list[dict[str, Any]] = ray.nodes()
    return rows


def ended_jobs() -> set[str]:
    """Return the ids, in hex, of drivers' jobs that are over."""
    from ray._private.state import jobs

    return {row["JobID"] for row in jobs() if row.get("IsDead")}


_RESTARTING = 3
"""The state of a restarting actor in Ray's messages (`ActorTableData.ActorState`)."""


def is_restarting(actor: Any) -> bool:
    """Whether Ray has reported to this process that the actor has ended and is restarting. Always
    False with a version of Ray that does not report restarts.
    """
    core = ray._private.worker.global_worker.core_worker
    state = getattr(core, "get_local_actor_state", None)
    return state is not None and state(actor._actor_id) == _RESTARTING
