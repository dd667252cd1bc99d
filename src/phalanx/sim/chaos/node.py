"""A simulated node: the production machines of a node, with simulated processes and connections."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from phalanx.model.ids import CONTROL, PREFIX_BYTES, node_prefix, node_process_id
from phalanx.node.cluster_node import cluster_node
from phalanx.node.effects import NodeEffects, NodeSetup
from phalanx.node.membership import MembershipOptions
from phalanx.node.peers import Peer
from phalanx.protocol.cluster_messages import CommitBundles, PrepareBundles
from phalanx.resources.instances import NodeResources
from phalanx.sim.chaos.files import SIZE_BYTES, NodeFiles, SimTransfers
from phalanx.sim.chaos.members import NoJobFiles, NoMemoryMeter, SimCommands
from phalanx.sim.chaos.processes import NoLogs, SimWorkers

if TYPE_CHECKING:
    from phalanx.sim.chaos.hosts import Host
    from phalanx.sim.chaos.kernel import Action
    from phalanx.sim.chaos.network import End, Message
    from phalanx.sim.chaos.world import World

STORE_BYTES = 1_000_000 * SIZE_BYTES
"""More than all objects of a run: nothing is spilled."""
BUSY_PORTS = 0.1
"""How often somebody else listens where a gang wants to."""


class SimNode:
    """One node's process."""

    def __init__(self, world: World, host: Host, node_id: str, total: dict[str, float]) -> None:
        self.world = world
        self.host = host
        self.name = host.name
        self.node_id = node_id
        self.prefix = node_prefix(node_id)
        self.total = total
        self.resources = NodeResources(total)
        self.processes = SimWorkers(self)
        self.commands = SimCommands(self)
        files = NodeFiles(host)
        rng = world.kernel.rng(f"node {self.name}")
        self._machines = machines = cluster_node(
            NodeSetup(
                node_id=node_id,
                resources=self.resources,
                labels={},
                address="head",
                object_store_bytes=STORE_BYTES,
            ),
            NodeEffects(
                clock=host.clock,
                wall=host.clock,
                make_unique=_numbered(),
                connections=_Connections(self),
                forks=self.processes,
                commands=self.commands,
                job_files=NoJobFiles(),
                memory=NoMemoryMeter(),
                store_files=files,
                spill_files=files,
                transfers=SimTransfers(self),
                logs=NoLogs(),
                is_port_free=lambda port: rng.random() > BUSY_PORTS,
                drain_output=lambda then: then(),
                know_addresses=lambda rows: None,
                sweep=lambda: None,
                note=partial(world.kernel.tell, host.name),
            ),
            MembershipOptions(head="head", hostname=self.name, patience_s=world.options.patience_s),
            _Head(self),
            world.options.spilling,
            world.kernel.rng(f"spilling {self.name}"),
        )
        self.bundles = machines.bundles
        self.leases = machines.leases
        self.spilling = machines.spilling
        self.store = machines.store
        self.members = machines.members
        self.workers = machines.workers
        self.ended = machines.processes
        host.processes[node_process_id(self.prefix)] = self
        machines.membership.join("", 0)
        host.every(world.options.tick_s, lambda: world.guard(host, self._tick))

    def guarded(self, action: Action) -> None:
        """Do this as one of the node's own steps."""
        self.world.guard(self.host, action)
        self.world.guard(self.host, self._round)

    # ---- time and ends -----------------------------------------------------------------------

    def _tick(self) -> None:
        self._machines.on_tick(self.host.clock())
        self._round()

    def _round(self) -> None:
        self._machines.on_round()
        self.world.look(self)

    def on_end(self, end: End) -> None:
        """See Process."""
        self._machines.on_lost(end, end.refusal)
        self._round()

    def on_message(self, end: End, message: Message) -> None:
        """See Process."""
        self._machines.on_message(end, message)
        if isinstance(message, PrepareBundles):
            self.world.promises.usage.prepared(self, message)
        elif isinstance(message, CommitBundles):
            self.world.promises.usage.committed(self, message)
        self._round()


class _Connections:
    """See node_links.Connections."""

    def __init__(self, node: SimNode) -> None:
        self._node = node

    def dial(self, process: bytes) -> End:
        """See Connections."""
        node = self._node
        to = node.world.host_of(process[:PREFIX_BYTES])
        return node.world.network.dial(node.host, node, to, process)

    def forget(self, peer: Peer) -> None:
        """See Connections."""
        _end_of(peer).close()

    def lose(self, peer: Peer) -> None:
        """See Connections."""
        end = _end_of(peer)
        if end.is_open:
            end.close()
            self._node.on_end(end)


def _end_of(peer: Peer) -> End:
    from phalanx.sim.chaos.network import End

    assert isinstance(peer, End)
    return peer


class _Head:
    """See membership.HeadEffects."""

    def __init__(self, node: SimNode) -> None:
        self._node = node

    def dial_head(self) -> End:
        """See HeadEffects."""
        node = self._node
        network = node.world.network
        return network.dial(node.host, node, network.hosts["head"], CONTROL)

    def joined(self) -> None:
        """See HeadEffects."""

    def note(self, text: str) -> None:
        """See HeadEffects."""
        self._node.world.kernel.tell(self._node.name, text)

    def end(self, reason: str, is_about_token: bool) -> None:
        """See HeadEffects. The process ends after this, and all its processes with it."""
        self._node.world.node_stops(self._node, reason)


def _numbered() -> Callable[[int], bytes]:
    """Numbers instead of random bytes, counted for each length."""
    counts: dict[int, int] = {}

    def make_unique(size: int) -> bytes:
        counts[size] = counts.get(size, 0) + 1
        return counts[size].to_bytes(size, "big")

    return make_unique
