"""Reports the metrics of a node and of its processes to the head.

A process reports what it has counted since its last report, so its counts outlive it. A gauge has
the value that the process reported last, and is forgotten with the process.
"""

from __future__ import annotations

from collections.abc import Callable

from phalanx.node.device_metrics import DeviceMetrics
from phalanx.node.dispatch import PeerMessageTable
from phalanx.node.head_link import HeadLink
from phalanx.node.leases.machine import LeaseMachine
from phalanx.node.notes import Note
from phalanx.node.object_store import ObjectStore
from phalanx.node.peers import Peer
from phalanx.observe.log_lines import WARNING
from phalanx.observe.metrics.catalogue import OF_NODES
from phalanx.observe.metrics.definitions import GAUGE, decode_numbers, encode_numbers
from phalanx.observe.metrics.meter import Meter
from phalanx.observe.metrics.program_metrics import RecordedMetrics
from phalanx.protocol.node_messages import ProcessNumbers
from phalanx.protocol.report_messages import NodeNumbers

SAY_EVERY_S = 5.0
"""Seconds between reports of metrics to the head."""
ALONE_EVERY_S = 1.0
"""Seconds between reports to a head in the same process."""
_MOST_NOTES = 20
"""The largest number of notes about metrics that could not be recorded."""


class NodeCounts:
    """The metrics of one node."""

    def __init__(
        self,
        head: HeadLink,
        leases: LeaseMachine,
        store: ObjectStore,
        devices: DeviceMetrics,
        look: Callable[[Meter], None] | None,
        note: Note,
        every_s: float = SAY_EVERY_S,
    ) -> None:
        """`look` sets the metrics that only the shell knows; None if nothing is reported to the
        head.
        """
        self.meter = Meter(OF_NODES)
        """The meter in which the parts of the node count."""
        self._head = head
        self._leases = leases
        self._store = store
        self._devices = devices
        self._look = look
        self._note = note
        self._every_s = every_s
        self._programs = RecordedMetrics()
        self._gauges: dict[bytes, dict[tuple[str, tuple[str, ...]], float]] = {}
        """The gauges that each process has set."""
        self._notes: set[str] = set()
        self._said = b""
        self._say_at = 0.0

    def handle_in(self, table: PeerMessageTable) -> None:
        """Register the handler for metrics of processes."""
        table.on(ProcessNumbers, self._counted)

    def _counted(self, peer: Peer, message: ProcessNumbers) -> None:
        for metric in decode_numbers(message.numbers):
            if metric.definition is not None:
                self._explain(self._programs.take_in(metric, peer.peer))
                continue
            known = OF_NODES.get(metric.name)
            if known is not None and known.kind == GAUGE:
                mine = self._gauges.setdefault(peer.peer, {})
                mine |= {(metric.name, one.labels): one.value for one in metric.samples}
            else:
                self.meter.take_in(metric)

    def _explain(self, trouble: str) -> None:
        if trouble and trouble not in self._notes and len(self._notes) < _MOST_NOTES:
            self._notes.add(trouble)
            self._note(trouble, level=WARNING)

    def process_gone(self, process: bytes) -> None:
        """Forget the gauges of a process that has ended."""
        self._gauges.pop(process, None)
        self._programs.process_gone(process)

    def head_joined(self) -> None:
        """Report everything at the next tick, because the head may be another one."""
        self._said = b""
        self._say_at = 0.0

    def tick(self, now: float) -> None:
        """Send a report to the head if it is due and something has changed."""
        if self._look is None or now < self._say_at or not self._head.is_connected:
            return
        self._say_at = now + self._every_s
        self._fill()
        self._look(self.meter)
        said = encode_numbers([*self.meter.numbers(), *self._programs.numbers()])
        if said != self._said:
            self._said = said
            self._head.report(NodeNumbers(said))

    def _fill(self) -> None:
        """Set the metrics that are measured for each report. (Others are counted when something
        happens.)
        """
        meter, leases, store = self.meter, self._leases, self._store
        sums: dict[tuple[str, tuple[str, ...]], float] = {}
        for mine in self._gauges.values():
            for key, value in mine.items():
                sums[key] = sums.get(key, 0.0) + value
        for name in {name for name, _ in sums}:
            meter.clear(name)
        for (name, labels), value in sums.items():
            meter.set(name, value, *labels)
        meter.set("phalanx_leases", len(leases.leases))
        for state, count in leases.workers.counts().items():
            meter.set("phalanx_workers", count, state)
        accounting = store.accounting
        meter.set("phalanx_object_store_capacity_bytes", accounting.capacity_bytes)
        meter.set("phalanx_object_store_used_bytes", accounting.used_bytes)
        meter.set("phalanx_object_store_spilled_bytes", accounting.spilled_bytes)
        meter.set("phalanx_object_store_pinned_bytes", store.pinned_bytes)
        meter.set("phalanx_objects", accounting.object_count)
        meter.set("phalanx_object_spills_total", accounting.spill_count)
        meter.set("phalanx_object_evictions_total", store.evictions)
        meter.set("phalanx_object_transfer_bytes_total", store.received_bytes, "in")
        meter.set("phalanx_object_transfer_bytes_total", store.sent_bytes, "out")
        self._devices.put(meter)
