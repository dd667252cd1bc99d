"""The head's view of the GPUs of all nodes: their last samples, and which of them are closed to new
work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from phalanx.head.clock import Clock
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.head.nodes.record import NodeRecord
from phalanx.head.outbox import Outbox
from phalanx.head.rights.owners import signed
from phalanx.model.holds import CORDON, Hold, holds_text
from phalanx.model.rows.devices import DeviceInfo
from phalanx.observe.device_health import BAD, WELL
from phalanx.observe.devices import DeviceSample
from phalanx.protocol.cluster_messages import CloseDevices
from phalanx.protocol.report_messages import DevicesSeen
from phalanx.protocol.requests.health import Cordon, ListDevices, Uncordon
from phalanx.protocol.requests.request import Asker, Entry
from phalanx.scheduler.devices.quantities import SCALE

GPU = "GPU"


class Devices:
    """The GPUs of all living nodes."""

    def __init__(
        self,
        nodes: NodeDirectory,
        outbox: Outbox,
        clock: Clock,
        noted: Callable[[NodeRecord, int, Hold | None], None],
    ) -> None:
        """`noted` is called with a node, the number of a GPU, and the hold with which an operator
        closes the GPU, or None when an operator opens it again.
        """
        self._nodes = nodes
        self._outbox = outbox
        self._clock = clock
        self._noted = noted
        self._seen: dict[str, DevicesSeen] = {}
        self._seen_at: dict[str, float] = {}

    def entries(self) -> list[Entry]:
        """Return the requests that this object answers, each with its handler."""
        return [
            Cordon.handled_by(self.cordon),
            Uncordon.handled_by(self.uncordon),
            ListDevices.handled_by(self.list_devices),
        ]

    def seen(self, node_id: str, message: DevicesSeen) -> None:
        """Store a node's reading of its devices."""
        if self._nodes.is_alive(node_id):
            self._seen[node_id] = message
            self._seen_at[node_id] = self._clock.now()

    def node_gone(self, node_id: str) -> None:
        """Forget the devices of a dead node."""
        self._seen.pop(node_id, None)
        self._seen_at.pop(node_id, None)

    def node_joined(self, record: NodeRecord) -> None:
        """Tell a joining node which of its devices are closed, because the node may not know."""
        if record.cordoned:
            self._order(record)

    # ---- closing and opening devices -----------------------------------------------------------

    def cordon(self, asker: Asker[bool], request: Cordon) -> bool:
        """Close a node or some of its GPUs to new work. Returns whether anything has changed."""
        record = self._known(request.node_id, request.devices)
        wall = self._clock.wall()
        hold = Hold(reason=request.reason, by=signed(request.by, asker), since=wall)
        if not request.devices:
            return self._nodes.hold(record.node_id, CORDON, hold)
        new = [number for number in request.devices if number not in record.cordoned]
        record.cordoned = record.cordoned | dict.fromkeys(request.devices, hold)
        self._changed(record, request.devices, hold)
        return bool(new)

    def uncordon(self, asker: Asker[bool], request: Uncordon) -> bool:
        """Reopen a node or some of its GPUs. Returns whether any of them was closed."""
        record = self._known(request.node_id, request.devices)
        if not request.devices:
            return self._nodes.release(record.node_id, CORDON)
        report = self._nodes.last_report(record.node_id)
        bad = {one.number for one in report.unwell if one.health.state == BAD}
        did = any(number in record.cordoned or number in bad for number in request.devices)
        record.cordoned = {
            number: hold
            for number, hold in record.cordoned.items()
            if number not in request.devices
        }
        self._changed(record, request.devices, None)
        return did

    def _known(self, node_id: str, devices: Sequence[int]) -> NodeRecord:
        """Return the node's record. Raises ValueError if the node or a device does not exist."""
        self._nodes.check_alive(node_id)
        record = self._nodes.get(node_id)
        assert record is not None, "what is alive is known"
        there = len(self._nodes.last_report(node_id).devices.get(GPU, ()))
        for number in devices:
            if not 0 <= number < there:
                has = f"gpu0 to gpu{there - 1}" if there else "no GPU"
                name = self._nodes.host_of(node_id)
                raise ValueError(f"node {name} has no gpu{number}: it has {has}")
        return record

    def _changed(self, record: NodeRecord, devices: Sequence[int], hold: Hold | None) -> None:
        self._nodes.amended(record)
        self._order(record, devices if hold is None else ())
        for number in devices:
            self._noted(record, number, hold)

    def _order(self, record: NodeRecord, excused: Sequence[int] = ()) -> None:
        order = CloseDevices(sorted(record.cordoned), list(excused))
        self._outbox.order(record.node_id, order)

    # ---- questions -----------------------------------------------------------------------------

    def busy(self, node_id: str, number: int, within_s: float) -> float | None:
        """Return the fraction of time for which a device was recently busy; None if its last sample
        is older than `within_s` seconds.
        """
        if self._clock.now() - self._seen_at.get(node_id, float("-inf")) > within_s:
            return None
        samples = self._seen[node_id].samples
        return next((one.busy for one in samples if one.number == number), None)

    def list_devices(
        self, asker: Asker[list[DeviceInfo]], request: ListDevices
    ) -> list[DeviceInfo]:
        """Return the devices of the requested nodes, or of all nodes."""
        asked = set(request.nodes)
        return [
            row
            for record in self._nodes.living()
            if not asked or record.node_id in asked
            for row in self.rows(record)
        ]

    def rows(self, record: NodeRecord) -> list[DeviceInfo]:
        """Return a node's devices for display. A node that does not read its devices has rows,
        too.
        """
        report = self._nodes.last_report(record.node_id)
        seen = self._seen.get(record.node_id, DevicesSeen([]))
        samples = {one.number: one for one in seen.samples}
        health = {one.number: one.health for one in report.unwell}
        rows = []
        for number, left in enumerate(report.devices.get(GPU, [])):
            sample = samples.get(number, DeviceSample(number=number))
            found = health.get(number, WELL)
            cordon = {CORDON: record.cordoned[number]} if number in record.cordoned else {}
            said = (found.reason, holds_text(cordon), report.trouble)
            rows.append(
                DeviceInfo(
                    node_id=record.node_id,
                    number=number,
                    state=found.state,
                    action=found.action,
                    reason="; ".join(one for one in said if one),
                    is_closed=found.state == BAD or bool(cordon),
                    left=left / SCALE,
                    holders=seen.holders.get(number, []),
                    uuid=sample.uuid,
                    minor=sample.minor,
                    model=sample.model,
                    busy=sample.busy,
                    memory_used=sample.memory_used,
                    memory_total=sample.memory_total,
                    power_w=sample.power_w,
                    power_limit_w=sample.power_limit_w,
                    temperature_c=sample.temperature_c,
                    ecc_corrected=sample.ecc_corrected,
                    ecc_uncorrected=sample.ecc_uncorrected,
                    processes=[(p.pid, p.memory_bytes, p.holder) for p in sample.processes],
                    mode=next((one.mode for one in seen.shares.get(number, ())), ""),
                    profile=sample.profile,
                    sharers=[
                        (one.holder, one.memory, one.used, one.limit)
                        for one in seen.shares.get(number, ())
                    ],
                )
            )
        return rows
