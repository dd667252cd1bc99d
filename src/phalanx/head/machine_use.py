"""The CPUs, memory and GPUs in use on the machines of the cluster, as nodes last reported them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from phalanx.head.clock import Clock
from phalanx.head.devices import GPU, Devices
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.head.nodes.record import NodeRecord
from phalanx.protocol.report_messages import MachineSeen
from phalanx.protocol.requests.node_use import ListNodesInUse
from phalanx.protocol.requests.request import Asker, Entry

FRESH_S = 60.0
"""The age in seconds above which a report is not counted."""


class MachinesInUse:
    """The latest report of each living node about its machine."""

    def __init__(self, nodes: NodeDirectory, clock: Clock, devices: Devices) -> None:
        self._nodes = nodes
        self._clock = clock
        self._devices = devices
        self._seen: dict[str, tuple[float, MachineSeen]] = {}

    def entries(self) -> list[Entry]:
        """Return the requests that this object answers, each with its handler."""
        return [ListNodesInUse.handled_by(self.list_nodes)]

    def seen(self, node_id: str, message: MachineSeen) -> None:
        """Store a node's report about its machine."""
        if self._nodes.is_alive(node_id):
            self._seen[node_id] = self._clock.now(), message

    def node_gone(self, node_id: str) -> None:
        """Forget the report of a dead node."""
        self._seen.pop(node_id, None)

    def used(self) -> Mapping[str, float]:
        """Return the amounts in use on all machines together: CPUs, bytes of memory, and GPUs. A
        machine with several nodes counts once. Resources without any fresh report are left out.
        """
        machines = {
            record.machine.key if record.machine else record.node_id: message
            for record, message in self._fresh()
        }
        found: dict[str, float] = {}
        if machines:
            found["CPU"] = sum(one.cpus for one in machines.values())
            found["memory"] = sum(one.memory_bytes for one in machines.values())
        gpus = [busy for record in self._nodes.living() for busy in self._busy_gpus(record)]
        if gpus:
            found[GPU] = sum(gpus)
        return found

    def list_nodes(
        self, asker: Asker[dict[str, dict[str, float]]], request: ListNodesInUse
    ) -> dict[str, dict[str, float]]:
        """Answer with the amounts that are in use on the machine of each node."""
        found = {
            record.node_id: {"CPU": round(message.cpus, 2), "memory": message.memory_bytes}
            for record, message in self._fresh()
        }
        for record in self._nodes.living():
            if gpus := self._busy_gpus(record):
                found.setdefault(record.node_id, {})[GPU] = round(sum(gpus), 2)
        return found

    def _fresh(self) -> Iterator[tuple[NodeRecord, MachineSeen]]:
        since = self._clock.now() - FRESH_S
        for record in self._nodes.living():
            at, message = self._seen.get(record.node_id, (0.0, None))
            if message is not None and at >= since:
                yield record, message

    def _busy_gpus(self, record: NodeRecord) -> list[float]:
        """Return how busy each GPU of a node is, from 0 to 1. GPUs whose use is unknown are left
        out.
        """
        report = self._nodes.last_report(record.node_id)
        found = (
            self._devices.busy(record.node_id, number, FRESH_S)
            for number in range(len(report.devices.get(GPU, ())))
        )
        return [busy for busy in found if busy is not None]
