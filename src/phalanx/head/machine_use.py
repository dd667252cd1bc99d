"""The CPUs and memory in use on the machines of the cluster, as nodes last reported them."""

from __future__ import annotations

from collections.abc import Mapping

from phalanx.head.clock import Clock
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.protocol.report_messages import MachineSeen


class MachinesInUse:
    """The latest report of each living node about its machine."""

    def __init__(self, nodes: NodeDirectory, clock: Clock) -> None:
        self._nodes = nodes
        self._clock = clock
        self._seen: dict[str, tuple[float, MachineSeen]] = {}

    def seen(self, node_id: str, message: MachineSeen) -> None:
        """Store a node's report about its machine."""
        if self._nodes.is_alive(node_id):
            self._seen[node_id] = self._clock.now(), message

    def node_gone(self, node_id: str) -> None:
        """Forget the report of a dead node."""
        self._seen.pop(node_id, None)

    def used(self, within_s: float) -> Mapping[str, float]:
        """Return the CPUs and the bytes of memory in use on all machines together. Reports older
        than `within_s` seconds do not count, and a machine with several nodes counts once. Without
        any report, the answer is empty.
        """
        since = self._clock.now() - within_s
        machines: dict[str, MachineSeen] = {}
        for record in self._nodes.living():
            at, message = self._seen.get(record.node_id, (0.0, None))
            if message is not None and at >= since:
                key = record.machine.key if record.machine else record.node_id
                machines[key] = message
        if not machines:
            return {}
        return {
            "CPU": sum(one.cpus for one in machines.values()),
            "memory": sum(one.memory_bytes for one in machines.values()),
        }
