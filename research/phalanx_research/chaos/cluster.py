"""A simulated cluster: its machines, the nodes on them, and the head."""

from __future__ import annotations

import random

from phalanx.model.ids import CONTROL, PREFIX_BYTES
from phalanx.storage.errors import WritesLostError
from phalanx.storage.memory import MemoryMark, MemoryShard
from phalanx.storage.storage import Storage
from phalanx_research.chaos.broken import Broken
from phalanx_research.chaos.disk import SimDisk
from phalanx_research.chaos.driver import SimDriver
from phalanx_research.chaos.head import SimHead
from phalanx_research.chaos.history import History
from phalanx_research.chaos.hosts import Host
from phalanx_research.chaos.kernel import Kernel
from phalanx_research.chaos.members import SimCommands
from phalanx_research.chaos.network import Network
from phalanx_research.chaos.node import SimNode
from phalanx_research.chaos.options import Options
from phalanx_research.chaos.promises import Promises

_RESTART_S = 1.0
"""Seconds after which a node that has ended itself is restarted."""


class Cluster:
    """All nodes that ever existed, and the head while it runs."""

    def __init__(
        self,
        kernel: Kernel,
        network: Network,
        options: Options,
        promises: Promises,
        history: History,
        rng: random.Random,
    ) -> None:
        """Start the cluster. `rng` draws the errors of the machines' clocks."""
        self._kernel = kernel
        self._rng = rng
        self._network = network
        self._options = options
        self._promises = promises
        self._history = history
        self.trouble = set(options.faults)
        """The faults that may affect messages now."""
        self._nodes: dict[bytes, SimNode] = {}
        """All nodes that ever existed, by prefix."""
        self.drivers: list[SimDriver] = []
        self.disk = SimDisk()
        self._mark = MemoryMark()
        self._lives = 0
        self.head: SimHead | None = None
        """The head's process; None while no head runs."""
        self.head_host = self._host("head", CONTROL)
        self.head_up()
        for total in options.nodes:
            self.add_node(total)

    # ---- nodes and drivers -------------------------------------------------------------------

    def living_nodes(self) -> list[SimNode]:
        """Return the nodes whose processes run and that the head has not declared dead."""
        return [n for n in self.running_nodes() if not self._history.is_dead(n.prefix)]

    def running_nodes(self) -> list[SimNode]:
        """Return the nodes whose processes run, whether or not the head has declared them dead."""
        return [node for node in self._nodes.values() if node.host.is_up]

    def node_named(self, node_id: str) -> SimNode | None:
        """Return the node with this id."""
        return next((n for n in self._nodes.values() if n.node_id == node_id), None)

    def start_driver(self, node: SimNode, name: str) -> SimDriver:
        """Start a driver's process on this node's machine."""
        driver = node.start_driver(name)
        self.drivers.append(driver)
        return driver

    # ---- machines ----------------------------------------------------------------------------

    def _host(self, name: str, process: bytes) -> Host:
        skew_s = self._rng.uniform(0.0, self._options.skew_s)
        rate = 1.0 + self._rng.uniform(-self._options.drift, self._options.drift)
        host = Host(self._kernel, name, ahead_s=skew_s, rate=rate)
        self._network.add_host(host, process[:PREFIX_BYTES])
        return host

    def add_node(self, total: dict[str, float], commands: SimCommands | None = None) -> None:
        """Add a machine with a new node. With `commands`, its process is the next process of the
        node that started these commands.
        """
        number = len(self._nodes) + 1
        prefix = (f"node{number:02d}" if number < 100 else f"no{number:04d}").encode()
        host = self._host(f"n{number}", prefix)
        self._kernel.log(host.name, f"starts with {total}")
        self._nodes[prefix] = SimNode(
            host,
            prefix.hex().ljust(56, "0"),
            total,
            self._network,
            self._options,
            self._promises,
            self._history,
            self._node_stops,
            commands,
        )

    def process_down(self, node: SimNode, how: str, back_s: float) -> None:
        """End a node's process, and start its next process later, with the same commands."""
        total = self.node_down(node.host, how, is_noticed=True, goes_on=True)
        if total is not None:
            self._kernel.after(back_s, lambda: self.add_node(total, node.commands))

    def node_down(
        self, host: Host, how: str, is_noticed: bool, goes_on: bool = False
    ) -> dict[str, float] | None:
        """End a machine, and return its resources, so that an equal machine can be added when the
        chaos ends. With `goes_on`, its commands go on.
        """
        node = next((n for n in self._nodes.values() if n.host is host), None)
        if node is None or not host.is_up:
            return None
        self._kernel.log(host.name, f"{how}; {'noticed at once' if is_noticed else 'silently'}")
        node.end_processes(goes_on)
        host.is_up = False
        host.files.clear()
        host.disk.clear()
        self._network.host_down(host, is_noticed)
        self._history.dead_nodes.add(node.node_id)
        return node.total

    def _node_stops(self, node: SimNode, reason: str) -> None:
        """Restart a node that has ended because the head refused it."""
        if node.commands.keeps and not node.is_stale:
            self.process_down(node, reason, _RESTART_S)
            return
        total = self.node_down(node.host, reason, is_noticed=True)
        if total is not None:
            self._kernel.after(_RESTART_S, lambda: self.add_node(total))

    def restore_nodes(self) -> None:
        """Add machines until the cluster has the same number as at the beginning, with the same
        resources.
        """
        have = [tuple(sorted(node.total.items())) for node in self.running_nodes()]
        for total in self._options.nodes:
            key = tuple(sorted(total.items()))
            if key in have:
                have.remove(key)
            else:
                self.add_node(total)

    # ---- the head ----------------------------------------------------------------------------

    def head_down(self) -> None:
        """End the head's process."""
        head, self.head = self.head, None
        if head is None:
            return
        self._kernel.log("head", "dies")
        self.head_host.is_up = False
        self._network.remove_process(self.head_host, CONTROL)
        head.crash()
        self._network.host_down(self.head_host, is_noticed=True)

    def torn_head_up(self, batches: int) -> None:
        """Start the head's process on storage that has lost the last batches of writes. The head
        must refuse to start. Then the storage is restored from a copy, and the head starts.
        """
        if self.head is not None or not self.disk.tear(batches):
            return
        self._kernel.log("head", f"its storage has lost the last {batches} batches")
        try:
            Storage([MemoryShard(self.disk)], marks=[self._mark])
        except WritesLostError:
            self.disk.mend()
        else:
            raise Broken("a head begins on storage that has lost what it had confirmed", ["head"])

    def head_up(self) -> None:
        """Start the head's process on its previous storage."""
        if self.head is not None:
            return
        self._lives += 1
        if self._lives > 1:
            self.head_host = self._host("head", CONTROL)
        self._kernel.log("head", f"starts, life {self._lives}")
        self.head_host.guard(self._make_head)

    def _make_head(self) -> None:
        self.head = SimHead(
            self.head_host,
            self._network,
            self._options,
            self._promises,
            self._history,
            self.trouble,
            self.disk,
            self._mark,
            self._lives,
        )
        # A head that dies before it has written a node's death has given no order that depends on
        # that death.
        for node in self.running_nodes():
            if self.head.control.nodes.is_alive(node.node_id):
                self._history.dead_nodes.discard(node.node_id)
