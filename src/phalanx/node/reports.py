"""A node's heartbeat: its report of free resources and waiting demands, and the times when it is
sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Protocol

import msgspec

from phalanx.model.ids import node_prefix
from phalanx.model.lifecycle import ALIVE, DRAINING
from phalanx.node.checks import Checks
from phalanx.node.devices import DeviceWatch
from phalanx.node.directories import Directories
from phalanx.node.effects import NodeSetup
from phalanx.node.fork_watch import ForkWatch
from phalanx.node.head_link import HeadLink
from phalanx.node.killed_parts import KilledParts
from phalanx.node.leases.machine import LeaseMachine
from phalanx.node.object_store import ObjectStore
from phalanx.node.shortage import Shortage
from phalanx.node.standing import Standing
from phalanx.protocol.cluster_messages import ViewRow
from phalanx.protocol.report_messages import REPORT_EVERY_S, NodeReport
from phalanx.scheduler.devices.sets import ResourceSet

AT_MOST_EVERY_S = 0.1
"""The least time, in seconds, between two reports that ticks send."""
STORE = "object_store_memory"
"""The resource that represents the object store."""


class Status(Protocol):
    """Describes the state of a node."""

    def report(self) -> NodeReport:
        """Return the node's state as a report."""
        ...


class NodeStatus:
    """Describes a node to its cluster."""

    def __init__(
        self,
        setup: NodeSetup,
        *,
        leases: LeaseMachine,
        store: ObjectStore,
        members: Sized,
        watch: DeviceWatch,
        fork_watch: ForkWatch,
        checks: Checks,
        directories: Directories,
        shortage: Shortage,
        killed_parts: KilledParts,
    ) -> None:
        """`members`: the members of jobs that run on this node."""
        self._setup = setup
        self._leases = leases
        self._store = store
        self._members = members
        self._watch = watch
        self._fork_watch = fork_watch
        self._checks = checks
        self._directories = directories
        self._shortage = shortage
        self._killed_parts = killed_parts

    def report(self) -> NodeReport:
        """Return the node's state as a report."""
        available = self._setup.resources.available()
        if STORE in available:
            free = self._store.accounting.free_bytes + self._store.file_pool.total_bytes
            available[STORE] = float(free)
        return NodeReport(
            available=available,
            devices=self._setup.resources.devices_left(),
            queued=self._queued(),
            running=len(self._leases.leases) + len(self._members),
            run_s=self._leases.run_s.value,
            bandwidth=self._store.bandwidth.value,
            total=self._setup.resources.total(),
            yields=self._leases.yields().to_mapping(),
            unwell=self._watch.unwell,
            trouble="; ".join(filter(None, (self._watch.trouble, self._fork_watch.trouble))),
            checks=self._checks.unwell,
            directories=self._directories.trouble,
            shortage=self._shortage.trouble,
            command_groups=self._setup.command_groups(),
            parts_killed=self._killed_parts.count,
            last_killed=self._killed_parts.last,
            cards=self._setup.resources.cards,
            last_lease=self._leases.last_lease,
        )

    def _queued(self) -> list[tuple[dict[str, float], int]]:
        """Return a row for each kind of waiting demand, with the number of equal demands. Equal
        demands share a row, because thousands may wait.
        """
        counts: dict[ResourceSet, int] = {}
        for demand in self._leases.waiting.all():
            counts[demand.place] = counts.get(demand.place, 0) + demand.count
        return [(place.to_mapping(), count) for place, count in counts.items()]

    def row(self) -> ViewRow:
        """Return the node's row for other nodes, without its address."""
        state = DRAINING if self._leases.is_draining else ALIVE
        row = view_row(
            self._setup.node_id,
            node_prefix(self._setup.node_id),
            self._leases.labels,
            self.report(),
            state,
        )
        row.ports = self._setup.ports
        row.limits = dict(self._setup.limits)
        return row


def view_row(
    node_id: str, prefix: bytes, labels: dict[str, str], report: NodeReport, state: str = ALIVE
) -> ViewRow:
    """Return a node's row for other nodes, which is made from its report. The row has no
    address.
    """
    return ViewRow(
        node_id=node_id,
        prefix=prefix,
        host="",
        port=0,
        state=state,
        total=report.total or {},
        available=report.available,
        labels=labels,
        devices=report.devices,
        queue_length=sum(count for _, count in report.queued),
        run_s=report.run_s,
        bandwidth=report.bandwidth,
        cards=report.cards,
        last_lease=report.last_lease,
    )


class Reports:
    """Sends reports: when something has changed, and regularly."""

    def __init__(
        self,
        clock: Callable[[], float],
        status: Status,
        head: HeadLink,
        at_most_every_s: float = AT_MOST_EVERY_S,
        every_s: float = REPORT_EVERY_S,
        standing: Standing | None = None,
    ) -> None:
        self._standing = standing
        self._clock = clock
        self._status = status
        self._head = head
        self._at_most_every_s = at_most_every_s
        self._every_s = every_s
        self._last: NodeReport | None = None
        self._sent_at = float("-inf")
        self._is_fresh = False
        """Whether a report was sent in this round."""

    def tick(self, now: float) -> None:
        """Send a report if one is due."""
        if self._is_fresh or not self._head.is_connected:
            return
        if now - self._sent_at < self._at_most_every_s:
            return
        report = self._status.report()
        if report != self._last or now - self._sent_at >= self._every_s:
            self._is_fresh = True
            self._send(report, now)

    def round(self) -> None:
        """Handle the end of a round: all messages that had arrived have been handled. If work waits
        for a confirmation of the head, send a report that asks for it.
        """
        self._is_fresh = False
        if self._standing is not None and self._standing.must_ask and self._head.is_connected:
            self._send(self._status.report(), self._clock())

    def report_needed(self) -> None:
        """Send a report, because the head will be asked something that depends on the free
        resources here.

        At most one report is sent in a round: the head subtracts what it assigns here, and a second
        report would undo that.
        """
        if not self._is_fresh:
            self.report_changed()

    def report_changed(self) -> None:
        """Send a report, because resources were released here. Released resources are always
        news.
        """
        self._is_fresh = True
        self._send(self._status.report(), self._clock())

    def head_joined(self) -> None:
        """Send a report at the next tick, whatever has changed, because the head may be another
        one.
        """
        self._last = None
        self._sent_at = float("-inf")

    def _send(self, report: NodeReport, now: float) -> None:
        self._last = report
        self._sent_at = now
        if self._standing is not None:
            number, is_asking = self._standing.next_report(report.running > 0)
            report = msgspec.structs.replace(report, number=number, is_asking=is_asking)
        self._head.report(report)
