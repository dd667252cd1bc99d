"""Watches a node's memory. If it runs short, picks a worker to end before the kernel picks a
process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from phalanx.node.leases.machine import LeaseMachine
from phalanx.runtime.os.memory_room import MemoryRoom, fullest_memory
from phalanx.runtime.os.memory_use import resident_below
from phalanx.scheduler.placement.memory_pressure import WorkerMemory, kills_by_time


class MemoryMonitor:
    """Picks one worker at a time, because memory only becomes free once the worker has ended."""

    def __init__(
        self,
        leases: LeaseMachine,
        limit: float,
        measure: Callable[[], MemoryRoom] = fullest_memory,
        sizes: Callable[[Iterable[int]], dict[int, int]] = resident_below,
    ) -> None:
        """`limit`: the fraction of the memory that may be used, 0 to 1.

        `sizes` returns the bytes that processes hold, each together with all its descendants.
        """
        self._leases = leases
        self._limit = limit
        self._measure = measure
        self._sizes = sizes
        self._last = b""
        """The worker that was picked last."""

    def worker_to_end(self) -> tuple[bytes, str] | None:
        """Return (worker, reason) if too much memory is used.

        Otherwise, and until the worker picked last has ended, return None.
        """
        if self._leases.workers.get(self._last) is not None:
            return None
        room = self._measure()
        if room.share < self._limit:
            return None
        kills = kills_by_time(
            self._workers(),
            used_bytes=room.used_bytes,
            threshold_bytes=int(self._limit * room.limit_bytes),
        )
        if not kills:
            return None
        self._last = bytes.fromhex(kills[0].worker)
        return self._last, (
            f"{room.whose} memory was {100 * room.share:.0f} % full, above its limit of "
            f"{100 * self._limit:.0f} %"
        )

    def _workers(self) -> list[WorkerMemory]:
        """Return all workers that have a process, except those without work that will end soon."""
        machine = self._leases
        all_workers = [w for w in machine.workers.all() if w.is_ready and w.pid]
        sizes = self._sizes([worker.pid for worker in all_workers])
        found = []
        for worker in all_workers:
            lease = machine.leases.get(worker.lease)
            if lease is None and worker.is_leaving:
                continue
            found.append(
                WorkerMemory(
                    name=worker.worker_id.hex(),
                    memory_bytes=sizes.get(worker.pid, 0),
                    started_s=worker.idle_since if lease is None else lease.since,
                    is_retriable=lease is not None and lease.demand.retriable,
                    is_idle=lease is None,
                )
            )
        return found
