"""A simulated node: a node's production code, with simulated processes and connections."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from phalanx.model.ids import CONTROL, node_prefix, node_process_id
from phalanx.model.own_time import OwnTime
from phalanx.node.checks import NoChecks
from phalanx.node.cluster_node import cluster_node
from phalanx.node.devices import NoDeviceReading
from phalanx.node.directories import NoDirectories
from phalanx.node.effects import NodeEffects, NodeSetup
from phalanx.node.kept_members import NotKeeping
from phalanx.node.member_effects import CommandEnd
from phalanx.node.membership import MembershipOptions
from phalanx.node.peers import Peer
from phalanx.node.taking_over import TakingOver
from phalanx.node.usage import NoUsageMeter
from phalanx.observe.devices import DeviceSample
from phalanx.observe.log_lines import INFO
from phalanx.protocol.bundle_messages import CommitBundles, PrepareBundles
from phalanx.protocol.gateway_messages import Pulled
from phalanx.scheduler.devices.instances import NodeResources
from phalanx_research.chaos.driver import SimDriver
from phalanx_research.chaos.files import SIZE_BYTES, NodeFiles, SimTransfers
from phalanx_research.chaos.history import History
from phalanx_research.chaos.hosts import Host, raise_defect
from phalanx_research.chaos.members import NoJobFiles, NoMemoryMeter, SimCommands
from phalanx_research.chaos.network import End, Message, Network
from phalanx_research.chaos.options import PROCESS, Options
from phalanx_research.chaos.processes import NoLogs, SimWorkers
from phalanx_research.chaos.promises import Promises
from phalanx_research.chaos.worker import SimWorker

BUSY_PORTS = 0.1
"""The probability that another program uses a port that a gang wants."""


class NeverSilent:
    """A fork server that always answers, because there is no real process."""

    def ask(self) -> None:
        """Do nothing, since the fork server has always answered."""

    def rouse(self) -> None:
        """Do nothing, since this fork server never sleeps."""


class SimNode:
    """The process of one node, with the processes of its workers and drivers."""

    def __init__(
        self,
        host: Host,
        node_id: str,
        total: dict[str, float],
        network: Network,
        options: Options,
        promises: Promises,
        history: History,
        stops: Callable[[SimNode, str], None],
        commands: SimCommands | None = None,
    ) -> None:
        """Start the node. `stops` is called with a reason when the node ends itself. `commands`:
        the commands of the node's earlier process, with which this process goes on.
        """
        self.host = host
        self.name = name = host.name
        self.node_id = node_id
        self.prefix = prefix = node_prefix(node_id)
        self.total = total
        self._network = network
        self._promises = promises
        self._history = history
        self._stops = stops
        self._clock = OwnTime(host.clock)
        self.resources = NodeResources(total)
        rng = host.kernel.rng
        make_worker = partial(SimWorker, host, prefix, network, promises)
        self.processes = SimWorkers(
            host, rng(f"processes {name}"), options.start_s, make_worker, self._reaped
        )
        self.commands = commands or SimCommands(
            host, prefix, promises.jobs, rng(f"members {name}"), PROCESS in options.faults
        )
        self.commands.serve(host, prefix, self._clock, self._command_exited)
        self.drivers: list[SimDriver] = []
        self._recovery: dict[int, int] = {}
        """The recovery action that each GPU needs, by the GPU's number."""
        files = NodeFiles(host, rng(f"disk {name}"), self._guarded)
        ports = rng(f"node {name}")
        self._machines = machines = cluster_node(
            NodeSetup(
                node_id=node_id,
                resources=self.resources,
                labels={},
                address="head",
                object_store_bytes=options.objects.store_objects * SIZE_BYTES,
            ),
            NodeEffects(
                clock=self._clock,
                monotonic=host.clock,
                wall=host.clock,
                make_unique=_numbered(prefix),
                connections=self,
                forks=self.processes,
                commands=self.commands,
                job_files=NoJobFiles(),
                directories=lambda store: NoDirectories(),
                memory=NoMemoryMeter(),
                usage=NoUsageMeter(),
                read_machine=lambda: None,
                devices=NoDeviceReading(),
                checks=NoChecks(),
                store_files=files,
                spill_files=files,
                transfers=SimTransfers(host, network, self._pulled),
                logs=NoLogs(),
                is_port_free=lambda port: ports.random() > BUSY_PORTS,
                fork_server=NeverSilent(),
                drain_output=lambda then: then(),
                know_addresses=lambda rows: None,
                sweep=lambda: None,
                look=None,
                report_defect=raise_defect,
                note=self.note,
                keeping=self.commands if self.commands.keeps else NotKeeping(),
            ),
            MembershipOptions(
                heads=("head",),
                hostname=self.commands.name,
                name=self.commands.name if self.commands.keeps else "",
                patience_s=options.patience_s,
                formers=tuple(self.commands.formers),
                keeps_commands=self.commands.keeps,
            ),
            self,
            options.spilling,
            rng(f"spilling {name}"),
        )
        self.bundles = machines.bundles
        self.leases = machines.leases
        self.spilling = machines.spilling
        network.add_process(host, node_process_id(prefix), self)
        history.node_joined(prefix, name, node_id)
        promises.usage.node_joined(self)
        if self.commands.keeps:
            host.guard(TakingOver(machines, self.commands, self._clock).take_over)
        machines.membership.join("", 0)
        host.every(options.tick_s, lambda: host.guard(self._tick), self)

    def start_driver(self, name: str) -> SimDriver:
        """Start a driver's process on this machine."""
        driver = SimDriver(
            self.host, self.prefix, self._network, self._promises, self._history, name
        )
        self.drivers.append(driver)
        return driver

    def set_device(self, number: int, recovery: int) -> None:
        """Set the recovery action that a GPU needs; 0 for a healthy GPU."""
        self._recovery[number] = recovery
        count = int(self.total.get("GPU", 0))
        self._machines.devices.seen(
            [DeviceSample(number=at, recovery=self._recovery.get(at, 0)) for at in range(count)]
        )
        self._round()

    @property
    def is_stale(self) -> bool:
        """Whether the head has declared this node dead."""
        return self._machines.membership.is_stale

    def end_processes(self, goes_on: bool = False) -> None:
        """End the machine and all processes on it; with `goes_on`, all but kept commands."""
        for driver in self.drivers:
            if driver.is_alive:
                driver.is_alive = False
                driver.gone()
        if goes_on:
            self.commands.process_gone(self.node_id)
        else:
            self.commands.machine_gone()
        for worker in list(self.processes.workers.values()):
            worker.is_alive = False
            worker.gone()
        self._promises.usage.node_gone(self.prefix)

    # ---- steps of the node -------------------------------------------------------------------

    def _guarded(self, action: Callable[[], object]) -> None:
        """Run an action as a step of the node itself."""

        def step() -> None:
            self.host.guard(action)
            self.host.guard(self._round)

        self.host.do(step, self)

    def _tick(self) -> None:
        self._machines.on_tick(self._clock())
        self._round()

    def _round(self) -> None:
        self._machines.on_round()
        self._promises.usage.check(self.prefix)

    def on_end(self, end: End) -> None:
        self._machines.on_lost(end, end.refusal)
        self._round()

    def on_message(self, end: End, message: Message) -> None:
        """Handle a message over a connection."""
        self._machines.on_message(end, message)
        if isinstance(message, PrepareBundles):
            self._promises.usage.prepared(self, message)
        elif isinstance(message, CommitBundles):
            self._promises.usage.committed(self, message)
        self._round()

    def _reaped(self, worker: bytes, how: str) -> None:
        if self._machines.workers.is_preempted(worker):
            self._promises.preempted(worker)
        self._guarded(partial(self._machines.processes.exited, worker, how))

    def _command_exited(self, process: bytes, code: int) -> None:
        self._guarded(partial(self._machines.members.exited, process, CommandEnd(code=code)))

    def _pulled(self, message: Pulled) -> None:
        self._guarded(partial(self._machines.store.pulled, message))

    # ---- Connections -------------------------------------------------------------------------

    def dial(self, process: bytes) -> End:
        """Connect to a process."""
        return self._network.dial(self.host, self, process)

    def forget(self, peer: Peer) -> None:
        assert isinstance(peer, End)
        peer.close()

    def lose(self, peer: Peer) -> None:
        """Record that the connection to a peer has ended."""
        assert isinstance(peer, End)
        if peer.is_open:
            peer.close()
            self.on_end(peer)

    # ---- HeadEffects -------------------------------------------------------------------------

    def dial_head(self, address: str) -> End | None:
        """Connect to the head. Returns None while the head cannot be reached."""
        return self.dial(CONTROL) if self.host.can_dial else None

    def joined(self, cluster: str, address: str, standbys: tuple[str, ...]) -> None:
        """Note that the head knows the node's members under the id of this process."""
        self.commands.formers.clear()

    def note(self, text: str, *, level: str = INFO, job: str = "") -> None:
        """Record an event."""
        self.host.kernel.log(self.name, text)

    def end(self, reason: str, is_about_token: bool) -> None:
        """End the node's process, and all its workers and drivers."""
        self._stops(self, reason)


def _numbered(prefix: bytes) -> Callable[[int], bytes]:
    """Return a function that returns counted numbers in place of random bytes, with a separate
    count for each length. Long numbers begin with the prefix of the node's process, so that the
    node's next process does not repeat them.
    """
    counts: dict[int, int] = {}

    def make_unique(size: int) -> bytes:
        counts[size] = counts.get(size, 0) + 1
        begin = prefix if size > len(prefix) else b""
        return begin + counts[size].to_bytes(size - len(begin), "big")

    return make_unique
