"""The memory of all nodes, as `ray._private.internal_api` reports it to libraries."""

from __future__ import annotations

from typing import NamedTuple

from phalanx.adapters.ray.modules.state import GlobalState
from phalanx.observe.state.query import MAX_LIMIT, StateQuery
from phalanx.util.state.listing import TIMEOUT_S
from phalanx.util.state.rows import answer


class StoreStats(NamedTuple):
    """Sums over all nodes, in bytes, numbers of objects, and seconds. Values that Phalanx does not
    count are 0.
    """

    object_store_bytes_used: int
    object_store_bytes_avail: int
    """The whole capacity, used or not, as in Ray."""
    num_local_objects: int
    spilled_bytes_total: int
    spilled_objects_total: int
    spill_time_total_s: float = 0.0
    restored_bytes_total: int = 0
    restored_objects_total: int = 0
    restore_time_total_s: float = 0.0
    object_store_bytes_fallback: int = 0
    object_store_bytes_primary_copy: int = 0
    object_pulls_queued: bool = False
    cumulative_created_bytes: int = 0
    cumulative_created_objects: int = 0


class MemoryInfo(NamedTuple):
    """The answer of `get_memory_info_reply`."""

    store_stats: StoreStats


def get_state_from_address(address: str | None = None) -> GlobalState:
    """Return the state of this program's cluster. The address has no effect, because a program uses
    only one cluster.
    """
    return GlobalState()


def get_memory_info_reply(
    state: GlobalState,
    node_manager_address: str | None = None,
    node_manager_port: int | None = None,
    timeout_seconds: float = TIMEOUT_S,
) -> MemoryInfo:
    """Return the bytes that the stores of all nodes hold, and the bytes that the stores have
    spilled to disk since their start.
    """
    query = StateQuery("stores", [], MAX_LIMIT, timeout_s=timeout_seconds)
    rows = answer(query, None, False).part.rows
    return MemoryInfo(
        StoreStats(
            object_store_bytes_used=sum(row["shared_bytes"] for row in rows),
            object_store_bytes_avail=sum(row["capacity_bytes"] for row in rows),
            num_local_objects=sum(row["objects"] + row["spilled_objects"] for row in rows),
            spilled_bytes_total=sum(row["spilled_total_bytes"] for row in rows),
            spilled_objects_total=sum(row["spills"] for row in rows),
        )
    )
