"""Ray's workers that run members of gangs of tasks: the amounts that they hold, and how they are
ended.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

from phalanx.model.ids import BundleId, GroupId
from phalanx.node.bundle_pool import BundlePool
from phalanx.node.bundle_table import BundleTable
from phalanx.runtime.os.own_time import own_time
from phalanx.scheduler.devices.instances import Allocation

LEAVES_WITHIN_S = 5.0
"""Seconds from the end of a member until its worker is killed, if the worker still runs."""


class GangWorkers:
    """The processes of members of gangs. The class implements `groups.Leases` and `groups.Tenants`,
    so that bundles can warn and end these processes. It does not know Ray's other tasks.
    """

    is_draining = False

    def __init__(self, bundles: BundleTable) -> None:
        self._bundles = bundles
        self._held: dict[int, tuple[BundlePool, Allocation]] = {}
        """The bundle in which each process runs, and the process's allocation in it."""
        self._leaving: dict[int, float] = {}
        """For each process whose member has ended: the time when the process is killed."""

    def adopt(self, place: BundleId, pid: int) -> None:
        """Register a process that runs in this bundle. If the bundle is gone, the process is
        ended.
        """
        self._forget_ended()
        pool = next(self._bundles.pools(place), None)
        held = None if pool is None else pool.acquire(pool.resources)
        if pool is None or held is None:
            _signal(pid, signal.SIGKILL)
            return
        self._held[pid] = (pool, held)

    def left(self, pid: int) -> None:
        """Note that the member in this process has ended; Ray ends the process."""
        if pid in self._held:
            self._leaving[pid] = own_time() + LEAVES_WITHIN_S

    def dispatch_in(self, room: bytes | None, now: float) -> None:
        """Do nothing, because no lease waits for bundles here."""

    def end_claim(self, group: GroupId) -> None:
        """Do nothing: no room is kept free for gangs here."""

    def warn_in(self, pools: Sequence[BundlePool]) -> None:
        """Warn the processes in these bundles that they will be ended."""
        self._signal_in(pools, signal.SIGTERM)

    def end_in(self, pools: Sequence[BundlePool], reason: str) -> None:
        """End the processes in these bundles."""
        self._signal_in(pools, signal.SIGKILL)

    def tick(self, now: float) -> None:
        """Kill workers that should have ended by now, and release the amounts of ended workers."""
        for pid, until in self._leaving.items():
            if now >= until:
                _signal(pid, signal.SIGKILL)
        self._forget_ended()

    def _forget_ended(self) -> None:
        for pid in [pid for pid in self._held if not _signal(pid, 0)]:
            self._leaving.pop(pid, None)
            pool, held = self._held.pop(pid)
            pool.release(held)

    def _signal_in(self, pools: Sequence[BundlePool], number: int) -> None:
        for pid, (own, _) in self._held.items():
            if pid not in self._leaving and any(own is pool for pool in pools):
                _signal(pid, number)


def _signal(pid: int, number: int) -> bool:
    """Send a signal; signal 0 only tests whether the process lives. Returns False if it is gone."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
