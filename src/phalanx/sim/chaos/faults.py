"""Trouble, drawn from the seed: machines and processes end, networks break, clocks differ."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from phalanx.sim.chaos.hosts import Host
    from phalanx.sim.chaos.world import World

MESSAGE_FAULTS = frozenset({"lose", "twice", "late"})
"""Faults of single messages, which the head's shell meets all the time."""


class Faults:
    """Injects faults until the chaos ends, and then mends everything."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = world.kernel.rng("faults")
        self._kinds = [kind for kind in world.options.faults if kind not in MESSAGE_FAULTS]
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
        }
        if self._kinds:
            self._plan_next()

    def _plan_next(self) -> None:
        world = self._world
        wait_s = self._rng.expovariate(1.0 / world.options.fault_every_s)
        if world.kernel.now + wait_s < world.options.chaos_s:
            world.kernel.after(wait_s, self._strike)

    def _strike(self) -> None:
        kind = self._rng.choice(self._kinds)
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self._world.had_faults = True
        self._strikes[kind]()
        self._plan_next()

    def _tell(self, host: Host, text: str) -> None:
        self._world.kernel.tell(host.name, text)

    def _one(self) -> Host | None:
        """A node's machine that is up."""
        hosts = [node.host for node in self._world.living_nodes()]
        return self._rng.choice(hosts) if hosts else None

    def _two(self) -> tuple[Host, Host] | None:
        hosts = [self._world.head_host, *(node.host for node in self._world.living_nodes())]
        if len(hosts) < 2:
            return None
        one, other = self._rng.sample(hosts, 2)
        return one, other

    # ---- kinds -------------------------------------------------------------------------------

    def _crash(self) -> None:
        """A machine is gone for good, or until the chaos ends."""
        host = self._one()
        if host is not None:
            self._world.node_down(host, "its machine crashes", self._rng.random() < 0.5)

    def _restart(self) -> None:
        """A machine goes and comes back, as a new node."""
        host = self._one()
        if host is not None:
            total = self._world.node_down(host, "its machine restarts", self._rng.random() < 0.5)
            if total is not None:
                delay_s = self._rng.uniform(0.1, 5.0)
                self._world.kernel.after(delay_s, lambda: self._world.add_node(total))

    def _partition(self) -> None:
        """Nothing gets through between two machines, or between one and all others."""
        network = self._world.network
        pair = self._two()
        if pair is None:
            return
        one, other = pair
        others = [other]
        if self._rng.random() < 0.5:
            hosts = [self._world.head_host, *(node.host for node in self._world.living_nodes())]
            others = [host for host in hosts if host is not one]
        self._tell(one, f"is cut off from {', '.join(host.name for host in others)}")
        for host in others:
            network.block(one, host)
        lasts_s = self._rng.choice((0.3, 2.0, 8.0))

        def mend() -> None:
            self._tell(one, "is no longer cut off")
            for host in others:
                network.unblock(one, host)

        self._world.kernel.after(lasts_s, mend)

    def _cut(self) -> None:
        """Connections between two machines break; new ones can be made at once."""
        pair = self._two()
        if pair is not None:
            self._tell(pair[0], f"loses its connections to {pair[1].name}")
            self._world.network.cut(*pair)

    def _sever(self) -> None:
        """One connection between living processes of two machines breaks; all others stay."""
        ends = self._world.network.between_machines()
        if ends:
            end = self._rng.choice(ends)
            near, far = end.process, end.other.process
            if near is not None and far is not None:
                self._tell(end.host, f"loses the connection of {near.name} to {far.name}")
            self._world.network.sever(end)

    def _freeze(self) -> None:
        """A machine stands still for a while."""
        host = self._world.head_host if self._rng.random() < 0.3 else self._one()
        if host is not None:
            seconds = self._rng.choice((0.2, 2.0, 10.0))
            self._tell(host, f"stands still for {seconds:g} s")
            host.freeze(seconds)

    def _slow(self) -> None:
        """A machine does everything more slowly for a while."""
        host = self._one()
        if host is None:
            return
        host.slowness = self._rng.choice((3.0, 20.0))
        self._tell(host, f"is {host.slowness:g} times as slow")

        def mend() -> None:
            host.slowness = 1.0

        self._world.kernel.after(self._rng.uniform(0.5, 6.0), mend)

    def _head(self) -> None:
        """The head's process dies and is started again on the same storage."""
        self._world.head_down()
        self._world.kernel.after(self._rng.choice((0.1, 1.0, 5.0)), self._world.head_up)

    def _worker(self) -> None:
        """A worker's process dies."""
        nodes = [node for node in self._world.living_nodes() if node.processes.workers]
        if nodes:
            node = self._rng.choice(nodes)
            worker = self._rng.choice(list(node.processes.workers.values()))
            self._world.guard(node.host, lambda: worker.die("signal SIGKILL"))

    def _drain(self) -> None:
        """A node is told to begin nothing new; somewhat later it is stopped."""
        world = self._world
        nodes = [n for n in world.living_nodes() if n.node_id not in world.drained_nodes]
        head = world.head
        if not nodes or head is None:
            return
        node = self._rng.choice(nodes)
        if not head.control.nodes.is_alive(node.node_id):
            return
        self._tell(node.host, "is to be drained")
        world.drained_nodes.add(node.node_id)
        world.guard(world.head_host, partial(head.drain, node.node_id))
        left_s = world.options.chaos_s - world.kernel.now
        delay_s = min(self._rng.uniform(0.5, 8.0), left_s)

        def stop() -> None:
            world.node_down(node.host, "is stopped after it was drained", is_noticed=True)

        world.kernel.after(delay_s, stop)

    def _erase(self) -> None:
        """Some files of objects on one machine are gone by themselves."""
        hosts = [node.host for node in self._world.living_nodes() if node.host.files]
        if hosts:
            host = self._rng.choice(hosts)
            share = self._rng.choice((0.1, 0.5, 1.0))
            names = [name for name in sorted(host.files) if self._rng.random() < share]
            for name in names:
                del host.files[name]
            self._tell(host, f"{len(names)} files are gone")

    def _driver(self) -> None:
        """A driver's process dies."""
        drivers = [driver for driver in self._world.drivers if driver.is_alive]
        if len(drivers) > 1:
            driver = self._rng.choice(drivers)
            self._world.guard(driver.host, lambda: driver.die("signal SIGKILL"))

    # ---- healing -----------------------------------------------------------------------------

    def heal(self) -> None:
        """No more trouble from here on."""
        world = self._world
        world.kernel.tell("all", "faults end here")
        world.trouble = frozenset()
        world.network.unblock_all()
        for name in sorted(world.network.hosts):
            world.network.hosts[name].slowness = 1.0
        world.head_up()
        world.restore_nodes()
