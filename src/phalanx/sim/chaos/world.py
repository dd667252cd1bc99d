"""One simulated cluster from one seed: faults, then healing, then progress is demanded."""

from __future__ import annotations

import gc
from functools import partial
from typing import TYPE_CHECKING, Any

from phalanx.model.ids import CONTROL, PREFIX_BYTES
from phalanx.model.lifecycle import ALIVE, CREATED, DEAD
from phalanx.sim.chaos import settled
from phalanx.sim.chaos.broken import Broken
from phalanx.sim.chaos.driver import SimDriver
from phalanx.sim.chaos.faults import Faults
from phalanx.sim.chaos.head import SimHead
from phalanx.sim.chaos.hosts import Host
from phalanx.sim.chaos.kernel import Action, Kernel
from phalanx.sim.chaos.network import Network
from phalanx.sim.chaos.node import SimNode
from phalanx.sim.chaos.options import Options, draw
from phalanx.sim.chaos.promises import Promises
from phalanx.sim.chaos.workload import Program
from phalanx.storage.memory import MemoryDisk

if TYPE_CHECKING:
    from collections.abc import Callable

PROGRESS_S = 240.0
"""Everything submitted has ended within so long after the last fault."""
SETTLE_S = 90.0
"""After the drivers have left, nothing is held any more within so long."""
_STEP_S = 0.5


class World:
    """All of a simulated cluster."""

    def __init__(self, seed: int, options: Options | None = None) -> None:
        self.seed = seed
        self.kernel = Kernel(str(seed))
        self._rng = self.kernel.rng("world")
        self.options = options or draw(self.kernel)
        self.trouble = frozenset(self.options.faults)
        self.network = Network(self.kernel, self.options.network)
        self.network.guard = self.guard
        self.promises = Promises(self)
        self.nodes: dict[bytes, SimNode] = {}
        """Every node that ever was, by prefix."""
        self.drivers: list[SimDriver] = []
        self.programs: list[Program] = []
        self.removed_groups: set[bytes] = set()
        self.dead_nodes: set[str] = set()
        """Ids of nodes that are gone, or that the head has given up."""
        self.drained_nodes: set[str] = set()
        """Ids of nodes that were told to begin nothing new."""
        self.had_faults = False
        self._missing: list[dict[str, float]] = []
        """What machines that crashed had."""
        self._disk = MemoryDisk()
        self._lives = 0
        self._head: SimHead | None = None
        self.head_host = self._host("head")
        self.head_up()
        for total in self.options.nodes:
            self.add_node(total)
        for number in range(self.options.drivers):
            self.kernel.at(self._rng.uniform(0.0, 2.0), partial(self._start_driver, number))
        self.faults = Faults(self)

    # ---- running -----------------------------------------------------------------------------

    def run(self) -> None:
        """Raises Broken when a promise does not hold.

        Without the garbage collector: references that go when it comes by would make a run depend
        on what ran before it in this process.
        """
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            self._run()
        finally:
            if was_enabled:
                gc.enable()

    def _run(self) -> None:
        options, kernel = self.options, self.kernel
        kernel.run(options.chaos_s)
        self.faults.heal()
        self._run_until(self._is_all_ended, PROGRESS_S)
        self.promises.check_all_kept(kernel.now - options.chaos_s)
        self.promises.jobs.check_ends()
        for driver in self.drivers:
            if driver.is_alive and driver.process_id:
                self.promises.check_journal(driver)
        for program in self.programs:
            program.end()
        self._run_until(lambda: not settled.actors_left(self), SETTLE_S)
        self._run_until(lambda: not settled.references_left(self), SETTLE_S)
        settled.check_references(self)
        for driver in self.drivers:
            if driver.is_alive:
                self.guard(driver.host, driver.leave)
        self._run_until(lambda: not settled.leftovers(self), SETTLE_S)
        settled.check(self)

    def _end_detached(self) -> None:
        """Detached actors outlive their drivers, and the head may hear of one after the driver is
        gone: somebody ends those whose programs will not."""
        head = self._head
        if head is None:
            return
        at_work = [p.driver for p in self.programs if p.driver.is_alive and not p.is_over]
        working = {driver.process_id for driver in at_work}
        for record in head.control.actor_table.all():
            if record.detached and record.owner not in working and record.state != DEAD:
                head.control.actor_table.kill(record.actor, no_restart=True)

    def _is_all_ended(self) -> bool:
        if self.promises.open() or self.promises.jobs.open() or self.promises.has_open_reads:
            return False
        return all(program.is_idle for program in self.programs)

    def _run_until(self, is_met: Callable[[], bool], limit_s: float) -> None:
        until = self.kernel.now + limit_s
        while self.kernel.now < until and not is_met():
            self.guard(self.head_host, self._end_detached)
            self.kernel.run(self.kernel.now + _STEP_S)

    def guard(self, host: Host, action: Action) -> None:
        """Do a step of somebody on this machine; a machine of ours that raises breaks a promise."""
        try:
            action()
        except Broken:
            raise
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise Broken(f"a machine on {host.name} raised {what}", [host.name]) from error

    def look(self, at: SimNode | SimHead) -> None:
        """A node or the head has done a step: what does it say now?"""
        if isinstance(at, SimNode):
            self.promises.usage.check(at)
            return
        if at is not self._head:
            return
        for record in at.control.actor_table.all():
            if record.state == ALIVE:
                self.promises.actor_alive(record.actor, record.incarnation, record.worker)
        for node in at.control.nodes.all():
            if node.state == DEAD:
                self.dead_nodes.add(node.node_id)
        for group_id in [group for program in self.programs for group in program.groups]:
            group = at.control.group_table.get(group_id)
            if group is not None and group.state == CREATED:
                settled.check_group(at.control, group)

    # ---- who is there ------------------------------------------------------------------------

    @property
    def head(self) -> SimHead | None:
        """The head's process; None while there is none."""
        return self._head

    def living_nodes(self) -> list[SimNode]:
        """Nodes whose process runs and whom the head has not given up."""
        return [
            node
            for node in self.nodes.values()
            if node.host.is_up and node.node_id not in self.dead_nodes
        ]

    def running_nodes(self) -> list[SimNode]:
        """Nodes whose process runs, whatever the head thinks of them."""
        return [node for node in self.nodes.values() if node.host.is_up]

    def node_named(self, node_id: str) -> SimNode | None:
        """The node of this id."""
        return next((n for n in self.nodes.values() if n.node_id == node_id), None)

    def host_of(self, prefix: bytes) -> Host | None:
        """The machine of a node."""
        node = self.nodes.get(prefix)
        return None if node is None else node.host

    def name_of_node(self, prefix: bytes) -> str:
        """A node's name for people."""
        node = self.nodes.get(prefix)
        return prefix.hex() if node is None else node.name

    def is_running(self, process: bytes) -> bool:
        """Whether a process lives, and the head has not given up its node."""
        node = self.nodes.get(process[:PREFIX_BYTES])
        if node is None or node.node_id in self.dead_nodes:
            return False
        return process in node.host.processes

    def name_of(self, process: bytes) -> str:
        """A process's name for people: of a driver, else the worker's number on its node."""
        for driver in self.drivers:
            if driver.process_id == process:
                return driver.name
        number = int.from_bytes(process[6:12], "big")
        return f"{self.name_of_node(process[:PREFIX_BYTES])}/w{number}"

    # ---- machines ----------------------------------------------------------------------------

    def _host(self, name: str) -> Host:
        skew_s = self._rng.uniform(0.0, self.options.skew_s)
        rate = 1.0 + self._rng.uniform(-self.options.drift, self.options.drift)
        host = Host(self.kernel, name, ahead_s=skew_s, rate=rate)
        self.network.hosts[name] = host
        return host

    def add_node(self, total: dict[str, float]) -> None:
        """A machine joins as a new node."""
        number = len(self.nodes) + 1
        prefix = (f"node{number:02d}" if number < 100 else f"no{number:04d}").encode()
        host = self._host(f"n{number}")
        self.kernel.tell(host.name, f"starts with {total}")
        node_id = prefix.hex().ljust(56, "0")
        self.nodes[prefix] = SimNode(self, host, node_id, total)

    def node_down(self, host: Host, how: str, is_noticed: bool) -> dict[str, float] | None:
        """A machine goes; what it had is put back when the chaos ends. The resources it had."""
        node = next((n for n in self.nodes.values() if n.host is host), None)
        if node is None or not host.is_up:
            return None
        self.kernel.tell(host.name, f"{how}; {'noticed at once' if is_noticed else 'silently'}")
        self._end_processes(node)
        host.is_up = False
        host.files.clear()
        self.promises.usage.host_down(host.name)
        self.network.host_down(host, is_noticed)
        self.dead_nodes.add(node.node_id)
        return node.total

    def node_stops(self, node: SimNode, reason: str) -> None:
        """A node's process ends by itself: the head has no place for it. It is started anew."""
        total = self.node_down(node.host, reason, is_noticed=True)
        if total is not None:
            self.kernel.after(1.0, lambda: self.add_node(total))

    def _end_processes(self, node: SimNode) -> None:
        for driver in self.drivers:
            if driver.node is node and driver.is_alive:
                driver.is_alive = False
                driver.gone()
        self.promises.jobs.node_gone(node)
        for worker in list(node.processes.workers.values()):
            worker.is_alive = False
            worker.gone()

    def restore_nodes(self) -> None:
        """As many machines as at the beginning, with the same resources."""
        have = [tuple(sorted(node.total.items())) for node in self.running_nodes()]
        for total in self.options.nodes:
            key = tuple(sorted(total.items()))
            if key in have:
                have.remove(key)
            else:
                self.add_node(total)

    def head_down(self) -> None:
        """The head's process dies."""
        head, self._head = self._head, None
        if head is None:
            return
        self.kernel.tell("head", "dies")
        self.head_host.is_up = False
        self.head_host.processes.pop(CONTROL, None)
        head.crash()
        self.network.host_down(self.head_host, is_noticed=True)

    def head_up(self) -> None:
        """The head's process is started, on the storage that it had."""
        if self._head is not None:
            return
        self._lives += 1
        if self._lives > 1:
            self.head_host = self._host("head")
        self.kernel.tell("head", f"starts, life {self._lives}")
        self.guard(self.head_host, self._make_head)

    def _make_head(self) -> None:
        self._head = SimHead(self, self.head_host, self._disk, self._lives)

    def _start_driver(self, number: int) -> None:
        nodes = self.living_nodes()
        if not nodes:
            return
        node: Any = self._rng.choice(nodes)
        driver = SimDriver(node, f"d{number + 1}")
        self.drivers.append(driver)
        rng = self.kernel.rng(f"program {number}")
        self.programs.append(Program(self, driver, rng))
