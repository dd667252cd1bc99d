"""Watches the machine's memory: whose worker ends before the kernel picks one at random."""

from __future__ import annotations

from collections.abc import Iterable

import psutil

from phalanx.node.lease import Lease
from phalanx.policies.memory_pressure import WorkerMemory, kills_by_time


def worker_to_end(leases: Iterable[Lease], limit: float) -> tuple[bytes, str] | None:
    """(worker, reason) when more than `limit` (0 to 1) of the memory is used, else None.

    One at a time: what it frees is seen at the next look.
    """
    memory = psutil.virtual_memory()
    used = 1 - memory.available / memory.total
    if used < limit:
        return None
    kills = kills_by_time(
        [
            WorkerMemory(
                name=lease.worker.worker_id.hex(),
                memory_bytes=_memory_of(lease.worker.pid),
                started_s=lease.since,
                is_retriable=not lease.demand.actor,
            )
            for lease in leases
            if lease.is_granted and lease.worker.pid
        ],
        used_bytes=memory.total - memory.available,
        threshold_bytes=int(limit * memory.total),
    )
    if not kills:
        return None
    reason = (
        f"the node's memory was {100 * used:.0f} % full, above its limit of {100 * limit:.0f} %"
    )
    return bytes.fromhex(kills[0].worker), reason


def _memory_of(pid: int) -> int:
    """Bytes of memory that a process holds; 0 when it is gone."""
    try:
        resident: int = psutil.Process(pid).memory_info().rss
    except psutil.Error:
        return 0
    return resident
