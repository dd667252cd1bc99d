"""A Ray node's part of the cluster: bundles with exact devices, and the commands that run in them.

The same parts as the embedded node's, in a shell without tasks and actors, for Ray has those.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from typing import Any

from phalanx.engines.declared_topology import read_topology
from phalanx.engines.processes import session as sessions
from phalanx.engines.ray.scheduler.children import start_children
from phalanx.engines.ray.scheduler.options import SchedulerOptions
from phalanx.model.ids import node_prefix
from phalanx.model.lifecycle import ALIVE
from phalanx.node.bundle_table import BundleTable
from phalanx.node.bundles import BundlePool
from phalanx.node.control_link import RemoteControl
from phalanx.node.group_places import GroupPlaces
from phalanx.node.groups import OF_GROUPS, NodeGroups
from phalanx.node.job_members import OF_MEMBERS, NodeMembers
from phalanx.protocol.cluster_messages import EventsTold, NodeReport, TellEvents, ViewRow
from phalanx.protocol.zygote_messages import Began, Exited, ZygoteOrder
from phalanx.resources.instances import Allocation, NodeResources
from phalanx.resources.topology import Topology

LEAVES_WITHIN_S = 5.0
"""A worker whose member has ended is gone by then, or is ended."""


class RayTasks:
    """Workers of Ray that run members of gangs of tasks; of other tasks nothing is known here."""

    is_draining = False

    def __init__(self, groups: GroupPlaces, bundles: BundleTable) -> None:
        self.groups = groups
        self._bundles = bundles
        self._members: dict[int, tuple[BundlePool, Allocation]] = {}
        """The place of each process, and what it holds there."""
        self._leaving: dict[int, float] = {}
        """Processes whose members have ended, and when they are ended if they have not by then."""

    def adopt(self, place: tuple[bytes, int], pid: int) -> None:
        """A process runs in a bundle from now on; one that has none any more is ended."""
        self._reap()
        pool = next(self._bundles.pools(place), None)
        held = None if pool is None else pool.acquire(pool.resources)
        if pool is None or held is None:
            _signal(pid, signal.SIGKILL)
            return
        self._members[pid] = (pool, held)

    def left(self, pid: int) -> None:
        """The member in this process has ended; Ray ends the process."""
        if pid in self._members:
            self._leaving[pid] = time.monotonic() + LEAVES_WITHIN_S

    def dispatch(self, now: float) -> None:
        """Nobody waits for bundles here."""

    def warn_in(self, pools: Sequence[BundlePool]) -> None:
        """Ask what runs in these bundles to end."""
        self._signal_in(pools, signal.SIGTERM)

    def end_in(self, pools: Sequence[BundlePool], reason: str) -> None:
        """End what runs in these bundles."""
        self._signal_in(pools, signal.SIGKILL)

    def tick(self, now: float) -> None:
        """Processes may have ended."""
        for pid, until in self._leaving.items():
            if now >= until:
                _signal(pid, signal.SIGKILL)
        self._reap()

    def _reap(self) -> None:
        for pid in [pid for pid in self._members if not _signal(pid, 0)]:
            self._leaving.pop(pid, None)
            pool, held = self._members.pop(pid)
            pool.release(held)

    def _signal_in(self, pools: Sequence[BundlePool], number: int) -> None:
        for pid, (own, _) in self._members.items():
            if pid not in self._leaving and any(own is pool for pool in pools):
                _signal(pid, number)


def _signal(pid: int, number: int) -> bool:
    """Send a signal, 0 for none; False when the process is gone."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


class RayNodeShell:
    """See the module. `has_news` is called when the control store waits for what is free here."""

    def __init__(
        self,
        node_id: str,
        totals: dict[str, float],
        labels: dict[str, str],
        options: SchedulerOptions,
        has_news: Callable[[], None],
    ) -> None:
        self.node_id = node_id
        self.prefix = node_prefix(node_id)
        self.labels = labels
        self.clock = time.monotonic
        self.session = sessions.create()
        self.children = start_children(self.session)
        self.resources = NodeResources(totals, topology=_wiring(totals, options.topology))
        self.bundles = BundleTable(self.resources)
        self.leases = RayTasks(GroupPlaces(node_id, self.bundles), self.bundles)
        self.control = RemoteControl()
        self.groups = NodeGroups(self)
        self.members = NodeMembers(self)
        self.report_soon = has_news

    def plan_soon(self) -> None:
        """Nothing is asked of other nodes."""

    def ask_zygote(self, order: ZygoteOrder) -> None:
        """See BundleHost."""
        self.children.post(order)

    def on_children(self) -> bool:
        """Commands have begun or ended. False when the process that starts them is gone."""
        messages = self.children.receive()
        if messages is None:
            return False
        for message in messages:
            if isinstance(message, Exited):
                self.members.exited(message)
            elif isinstance(message, Began):
                self.members.runs(message.process, message.pid)
        return True

    def on_control(self, message: Any) -> None:
        """The control store says something; what is about tasks and actors is nothing here."""
        if isinstance(message, OF_GROUPS):
            self.groups.on_control(message)
        elif isinstance(message, OF_MEMBERS):
            self.members.on_control(message)
        elif isinstance(message, TellEvents):
            self.control.report(EventsTold(message.number, []))

    def tick(self, now: float) -> None:
        """Time has passed."""
        self.bundles.tick(now)
        self.groups.tick(now)
        self.members.tick(now)
        self.leases.tick(now)
        self.groups.settle()
        self.children.flush()

    def report(self) -> NodeReport:
        """What is free here by our own account."""
        return NodeReport(
            available=self.resources.available(),
            devices=self.resources.devices_left(),
            total=self.resources.total(),
        )

    def row(self, host: str) -> ViewRow:
        """This node as the view shows it."""
        report = self.report()
        return ViewRow(
            node_id=self.node_id,
            prefix=self.prefix,
            host=host,
            port=0,
            state=ALIVE,
            total=report.total or {},
            available=report.available,
            labels=self.labels,
            devices=report.devices,
        )

    def end(self) -> None:
        """End all that runs here, and delete its files. The process is to end after this."""
        self.children.close()
        sessions.remove(self.session)


def _wiring(totals: dict[str, float], declared: str) -> Topology | None:
    """How this node's devices are wired, as declared or found; None when that is not known, or is
    of fewer devices than Ray has here."""
    count = totals.get("GPU", 0)
    if not count:
        return None
    wiring = read_topology(declared or "detect")
    return wiring if wiring is not None and len(wiring.numa) >= count else None
