"""Faults drawn from the seed: ends of machines and processes, broken networks, wrong clocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from phalanx.observe.device_health import REBOOT, RECOVERY
from phalanx.protocol.report_messages import REPORT_EVERY_S
from phalanx_research.chaos.cluster import Cluster
from phalanx_research.chaos.history import History
from phalanx_research.chaos.hosts import Host
from phalanx_research.chaos.kernel import Kernel
from phalanx_research.chaos.network import Network
from phalanx_research.chaos.options import Options

MESSAGE_FAULTS = frozenset({"lose", "twice", "late"})
"""Faults of single messages. They may affect the head's messages at any time."""

BAD = (1, 1, 2)
"""The recovery actions of failing GPUs (see `device_health`). One is drawn for each failing GPU."""


class Faults:
    """Injects faults. When the chaos ends, it repairs all machines and connections."""

    def __init__(
        self,
        kernel: Kernel,
        network: Network,
        options: Options,
        history: History,
        cluster: Cluster,
    ) -> None:
        self._kernel = kernel
        self._network = network
        self._options = options
        self._history = history
        self._cluster = cluster
        self._rng = kernel.rng("faults")
        self._order = kernel.rng("order of what was frozen")
        apart = MESSAGE_FAULTS | {"clock", "device", "step"}
        self._kinds = [kind for kind in options.faults if kind not in apart]
        self.counts: dict[str, int] = {}
        self._strikes: dict[str, Callable[[], None]] = {
            "crash": self._crash,
            "restart": self._restart,
            "partition": self._partition,
            "cut": self._cut,
            "sever": self._sever,
            "freeze": self._freeze,
            "slow": self._slow,
            "head": self._head,
            "worker": self._worker,
            "drain": self._drain,
            "erase": self._erase,
            "driver": self._driver,
            "full": self._full,
            "torn": self._torn,
            "dials": self._dials,
            "pause": self._pause,
            "process": self._process,
        }
        if self._kinds:
            self._plan_next()
        if "clock" in options.faults:
            rng = kernel.rng("clock jumps")
            for _ in range(rng.randint(1, 3)):
                jump_s = rng.choice((30.0, 3600.0, 1e6))
                kernel.at(rng.uniform(0.0, options.chaos_s), partial(self._jump, jump_s))

        if "device" in options.faults:
            rng = kernel.rng("devices")
            for _ in range(rng.randint(1, 6)):
                strike = partial(self._device, rng.random(), rng.choice(BAD), rng.uniform(0.2, 6.0))
                kernel.at(rng.uniform(0.0, options.chaos_s), strike)

        if "step" in options.faults:
            self._plan_steps()

    def _plan_steps(self) -> None:
        """Plan steps of the head's wall-clock time, backwards and forwards, sometimes followed by a
        correction.
        """
        rng, kernel, chaos_s = self._kernel.rng("clock steps"), self._kernel, self._options.chaos_s
        for _ in range(rng.randint(1, 4)):
            step_s = rng.choice((3.0, 90.0, 5400.0, 400 * 86_400.0)) * rng.choice((-1, 1))
            at = rng.uniform(0.0, chaos_s)
            kernel.at(at, partial(self._step, step_s))
            if rng.random() < 0.7:
                kernel.at(min(at + rng.uniform(0.1, 6.0), chaos_s), partial(self._step, -step_s))

    def _step(self, step_s: float) -> None:
        """Change the head's wall-clock time; the head's monotonic clock is not affected."""
        self.counts["step"] = self.counts.get("step", 0) + 1
        self._cluster.head_host.jumped_s += step_s
        self._tell(self._cluster.head_host, f"its wall-clock time is set by {step_s:+g} s")

    def _device(self, which: float, recovery: int, bad_for_s: float) -> None:
        """Make a GPU of a node fail, and recover some time later."""
        nodes = [one for one in self._cluster.living_nodes() if one.total.get("GPU")]
        if not nodes:
            return
        node = nodes[int(which * len(nodes))]
        number = int(which * 1000) % int(node.total["GPU"])
        self.counts["device"] = self.counts.get("device", 0) + 1
        self._history.had_faults = True
        if RECOVERY[recovery] == REBOOT:  # this action drains the whole node
            self._history.drained_nodes.add(node.node_id)
        self._tell(node.host, f"its GPU {number} goes bad: {RECOVERY[recovery]}")
        node.host.guard(partial(node.set_device, number, recovery))
        left_s = max(self._options.chaos_s - self._kernel.now, 0.0)
        is_well = partial(node.set_device, number, 0)
        self._kernel.after(min(bad_for_s, left_s), lambda: node.host.guard(is_well))

    def _jump(self, jump_s: float) -> None:
        """Move the head's wall-clock time forward; the head's monotonic clock is not affected."""
        self.counts["clock"] = self.counts.get("clock", 0) + 1
        self._cluster.head_host.jumped_s += jump_s
        self._tell(self._cluster.head_host, f"its wall-clock time jumps ahead by {jump_s:g} s")

    def _plan_next(self) -> None:
        wait_s = self._rng.expovariate(1.0 / self._options.fault_every_s)
        if self._kernel.now + wait_s < self._options.chaos_s:
            self._kernel.after(wait_s, self._strike)

    def _strike(self) -> None:
        kind = self._rng.choice(self._kinds)
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self._history.had_faults = True
        self._strikes[kind]()
        self._plan_next()

    def _tell(self, host: Host, text: str) -> None:
        self._kernel.log(host.name, text)

    def _one(self) -> Host | None:
        """Return the running machine of some node, drawn at random."""
        hosts = [node.host for node in self._cluster.living_nodes()]
        return self._rng.choice(hosts) if hosts else None

    def _two(self) -> tuple[Host, Host] | None:
        hosts = [self._cluster.head_host, *(node.host for node in self._cluster.living_nodes())]
        if len(hosts) < 2:
            return None
        one, other = self._rng.sample(hosts, 2)
        return one, other

    # ---- kinds of faults ---------------------------------------------------------------------

    def _crash(self) -> None:
        """Crash a machine for good, or until the chaos ends."""
        host = self._one()
        if host is not None:
            self._cluster.node_down(host, "its machine crashes", self._rng.random() < 0.5)

    def _restart(self) -> None:
        host = self._one()
        if host is not None:
            total = self._cluster.node_down(host, "its machine restarts", self._rng.random() < 0.5)
            if total is not None:
                delay_s = self._rng.uniform(0.1, 5.0)
                self._kernel.after(delay_s, lambda: self._cluster.add_node(total))

    def _partition(self) -> None:
        """Block all messages between two machines, or between one machine and all others."""
        network = self._network
        pair = self._two()
        if pair is None:
            return
        one, other = pair
        others = [other]
        if self._rng.random() < 0.5:
            hosts = [self._cluster.head_host, *(node.host for node in self._cluster.living_nodes())]
            others = [host for host in hosts if host is not one]
        self._tell(one, f"is cut off from {', '.join(host.name for host in others)}")
        for host in others:
            network.block(one, host)
        lasts_s = self._rng.choice((0.3, 2.0, 8.0))

        def mend() -> None:
            self._tell(one, "is no longer cut off")
            for host in others:
                network.unblock(one, host)

        self._kernel.after(lasts_s, mend)

    def _cut(self) -> None:
        """Break the connections between two machines. New connections can be made immediately."""
        pair = self._two()
        if pair is not None:
            self._tell(pair[0], f"loses its connections to {pair[1].name}")
            self._network.cut(*pair)

    def _sever(self) -> None:
        """Break one connection between living processes of two machines; all other connections
        stay.
        """
        ends = self._network.between_machines()
        if ends:
            end = self._rng.choice(ends)
            near, far = end.process, end.other.process
            if near is not None and far is not None:
                self._tell(end.host, f"loses the connection of {near.name} to {far.name}")
            self._network.sever(end)

    def _freeze(self) -> None:
        host = self._cluster.head_host if self._rng.random() < 0.3 else self._one()
        if host is not None:
            seconds = self._rng.choice((0.2, 2.0, 10.0))
            self._tell(host, f"stands still for {seconds:g} s")
            host.freeze(seconds, ticks_first=self._order.random() < 0.5)

    def _pause(self) -> None:
        """Stop a process and continue it. The head, a driver or a worker may be stopped for a long
        time. A node's process is stopped for less time than it may be silent.
        """
        seconds = self._rng.choice((0.5, 3.0, 10.0))
        kind = self._rng.choice(("head", "node", "driver", "worker"))
        if kind == "head":
            self._tell(self._cluster.head_host, f"its process is stopped for {seconds:g} s")
            self._cluster.head_host.freeze(seconds, ticks_first=True)
            return
        nodes = self._cluster.living_nodes()
        if not nodes:
            return
        node = self._rng.choice(nodes)
        found: Sequence[object] = (node,)
        if kind == "node":
            seconds = min(seconds, (self._options.limits.silence_s - REPORT_EVERY_S) / 2)
        elif kind == "driver":
            found = [driver for driver in node.drivers if driver.is_alive]
        else:
            found = list(node.processes.workers.values())
        if found:
            self._tell(node.host, f"a {kind} is stopped for {seconds:g} s")
            node.host.stop(self._rng.choice(found), seconds)

    def _slow(self) -> None:
        host = self._one()
        if host is None:
            return
        host.slowness = self._rng.choice((3.0, 20.0))
        self._tell(host, f"is {host.slowness:g} times as slow")

        def mend() -> None:
            host.slowness = 1.0

        self._kernel.after(self._rng.uniform(0.5, 6.0), mend)

    def _head(self) -> None:
        """End the head's process and restart it on the same storage."""
        self._cluster.head_down()
        self._kernel.after(self._rng.choice((0.1, 1.0, 5.0)), self._cluster.head_up)

    def _torn(self) -> None:
        """End the head's process, and restart it on storage that has lost the last writes."""
        self._cluster.head_down()
        batches = self._rng.randint(1, 4)
        delay_s = self._rng.choice((0.1, 1.0, 5.0))

        def up() -> None:
            self._cluster.torn_head_up(batches)
            self._cluster.head_up()

        self._kernel.after(delay_s, up)

    def _full(self) -> None:
        """Fill the head's disk for a while; the head's process may die in that time."""
        disk = self._cluster.disk
        if disk.is_full:
            return
        disk.is_full = self._history.had_full_disk = True
        self._kernel.log("head", "its disk is full")

        def mend() -> None:
            disk.is_full = False
            self._kernel.log("head", "its disk has room again")

        lasts_s = self._rng.choice((0.5, 3.0, 10.0))
        self._kernel.after(lasts_s, mend)
        if self._rng.random() < 0.5:
            self._kernel.after(self._rng.uniform(0.0, lasts_s), self._head)

    def _dials(self) -> None:
        """Take all free descriptors from a machine for a while, and break its connection to the
        head. During that time the machine cannot connect to the head again.
        """
        host = self._one()
        if host is None:
            return
        host.can_dial = False
        self._tell(host, "has no descriptor left")
        self._network.cut(host, self._cluster.head_host)

        def mend() -> None:
            host.can_dial = True

        self._kernel.after(self._rng.uniform(0.5, 6.0), mend)

    def _worker(self) -> None:
        nodes = [node for node in self._cluster.living_nodes() if node.processes.workers]
        if nodes:
            node = self._rng.choice(nodes)
            worker = self._rng.choice(list(node.processes.workers.values()))
            node.host.guard(lambda: worker.die("signal SIGKILL"))

    def _drain(self) -> None:
        cluster, drained = self._cluster, self._history.drained_nodes
        nodes = [n for n in cluster.living_nodes() if n.node_id not in drained]
        head = cluster.head
        if not nodes or head is None:
            return
        node = self._rng.choice(nodes)
        if not head.control.nodes.is_alive(node.node_id):
            return
        self._tell(node.host, "is to be drained")
        drained.add(node.node_id)
        cluster.head_host.guard(partial(head.drain, node.node_id))
        left_s = self._options.chaos_s - self._kernel.now
        delay_s = min(self._rng.uniform(0.5, 8.0), left_s)

        def stop() -> None:
            cluster.node_down(node.host, "is stopped after it was drained", is_noticed=True)

        self._kernel.after(delay_s, stop)

    def _erase(self) -> None:
        hosts = [node.host for node in self._cluster.living_nodes() if node.host.files]
        if hosts:
            host = self._rng.choice(hosts)
            share = self._rng.choice((0.1, 0.5, 1.0))
            names = [name for name in sorted(host.files) if self._rng.random() < share]
            for name in names:
                del host.files[name]
            self._tell(host, f"{len(names)} files are gone")

    def _process(self) -> None:
        """End a node's process while its commands go on, and start its next process."""
        nodes = self._cluster.living_nodes()
        if nodes:
            node = self._rng.choice(nodes)
            back_s = self._rng.choice((0.1, 1.0, 4.0))
            self._cluster.process_down(node, "its process ends, and its commands go on", back_s)

    def _driver(self) -> None:
        drivers = [driver for driver in self._cluster.drivers if driver.is_alive]
        if len(drivers) > 1:
            driver = self._rng.choice(drivers)
            driver.host.guard(lambda: driver.die("signal SIGKILL"))

    # ---- healing -----------------------------------------------------------------------------

    def heal(self) -> None:
        """End all faults, and inject no more."""
        self._kernel.log("all", "faults end here")
        self._cluster.trouble.clear()
        self._network.unblock_all()
        for name in sorted(self._network.hosts):
            self._network.hosts[name].slowness = 1.0
            self._network.hosts[name].can_dial = True
        self._cluster.disk.is_full = False
        self._cluster.head_up()
        self._cluster.restore_nodes()
