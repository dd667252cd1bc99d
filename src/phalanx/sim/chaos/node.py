"""A simulated node: the production machines of leases, bundles and spilling in a thin shell.

It is wired as `embedded.node.shell` is: the same switchboard between the same parts for groups,
actors, jobs and other nodes; processes and sockets are simulated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from phalanx.engines.embedded.node.requests import FOR_CONTROL
from phalanx.model.ids import PREFIX_BYTES, node_prefix, node_process_id, process_id
from phalanx.node.actors import NodeActors
from phalanx.node.bundle_table import BundleTable
from phalanx.node.drivers import NodeJobs
from phalanx.node.group_places import GroupPlaces
from phalanx.node.groups import NodeGroups
from phalanx.node.leases import LeaseMachine
from phalanx.node.message_dispatcher import MessageDispatcher
from phalanx.node.other_nodes import OtherNodes
from phalanx.node.spilling import Spilling
from phalanx.node.workers import WorkerPool, WorkerRecord
from phalanx.policies.averages import Average
from phalanx.protocol.cluster_messages import (
    Answer,
    CommitBundles,
    PrepareBundles,
)
from phalanx.protocol.messages import Hello
from phalanx.protocol.node_messages import Dropped, Reply, Request, Stop
from phalanx.resources.instances import NodeResources
from phalanx.scheduling.cluster_nodes import ClusterNodes
from phalanx.sim.chaos.files import Pulls
from phalanx.sim.chaos.members import SimMembers
from phalanx.sim.chaos.membership import SimMember
from phalanx.sim.chaos.processes import Processes

if TYPE_CHECKING:
    from phalanx.sim.chaos.hosts import Host
    from phalanx.sim.chaos.kernel import Action
    from phalanx.sim.chaos.network import End, Message
    from phalanx.sim.chaos.world import World

BUSY_PORTS = 0.1
"""How often somebody else listens where a gang wants to."""


class _Jobs(NodeJobs):
    """Ids in order instead of random ones."""

    def new_process(self, job: bytes) -> bytes:
        node = cast(Any, self._shell)
        node.process_count += 1
        return process_id(node.prefix, node.process_count.to_bytes(6, "big"), job)


class _Groups(NodeGroups):
    """Ports are free, or not, by the seed; what is promised of bundles is looked at."""

    def prepare(self, message: PrepareBundles) -> None:
        super().prepare(message)
        node = cast(Any, self._shell)
        node.world.promises.usage.prepared(node, message)

    def commit(self, message: CommitBundles) -> None:
        super().commit(message)
        node = cast(Any, self._shell)
        node.world.promises.usage.committed(node, message)

    def _is_free(self, port: int) -> bool:
        node = cast(Any, self._shell)
        return bool(node.rng.random() > BUSY_PORTS)


class _Others(OtherNodes):
    """Other nodes behind simulated connections."""

    def _dial(self, prefix: bytes) -> Any:
        node = cast(Any, self._shell)
        to = node.world.host_of(prefix)
        return node.world.network.dial(node.host, node, to, node_process_id(prefix))

    def _sweep(self) -> None:
        """There are no files."""


class _Config:
    """What the shared parts read of a node's configuration."""

    prestart = 0

    def __init__(self, node_id: str) -> None:
        self.node_id = node_id
        self.labels: dict[str, str] = {}
        self.address = "head"


class _Nothing:
    """What is not simulated, and whatever it has: a store of large objects, a record of events."""

    def __getattr__(self, name: str) -> Any:
        return self

    def __call__(self, *_: Any) -> None:
        """Does nothing."""


class _Loop:
    """What the shared parts ask of the event loop."""

    def __init__(self, node: SimNode) -> None:
        self._node = node

    def watch(self, end: End) -> None:
        """Simulated connections are watched from the start."""

    def forget(self, end: End) -> None:
        """Drop a connection silently."""
        end.close()

    def lose(self, end: End) -> None:
        """Drop a connection and say so."""
        if end.is_open:
            end.close()
            self._node.on_end(end)


class SimNode(MessageDispatcher):
    """One node's process."""

    members: SimMembers

    def __init__(self, world: World, host: Host, node_id: str, total: dict[str, float]) -> None:
        self.world = world
        self.host = host
        self.name = host.name
        self.clock = host.clock
        self.prefix = node_prefix(node_id)
        self.config = _Config(node_id)
        self.as_shell = cast(Any, self)
        """For the parts that production's shell and this one have in common."""
        self.process_count = 0
        self.rng = world.kernel.rng(f"node {self.name}")
        self.peers = {}
        self.loop = _Loop(self)
        self.store = self.happened = _Nothing()
        self.total = total
        self.resources = NodeResources(total)
        self.jobs = _Jobs(self.as_shell)
        self.exits = self.processes = Processes(self)
        self.actors = NodeActors(self.as_shell)
        self.groups = _Groups(self.as_shell)
        self.members = SimMembers(self)
        self.others = _Others(self.as_shell)
        self.bundles = BundleTable(self.resources)
        places = GroupPlaces(node_id, self.bundles)
        self.cluster = ClusterNodes()
        self.spilling = Spilling(
            node_id,
            self.cluster,
            self,
            world.kernel.rng(f"spilling {self.name}"),
            world.options.spilling,
            lambda owner: owner[:PREFIX_BYTES] == self.prefix,
            places.nodes_of,
        )
        pool = WorkerPool(max(1, int(total.get("CPU", 1))), self.jobs.new_process)
        self.leases = LeaseMachine(self.resources, self, pool, node_id, {}, places, self.spilling)
        self.bandwidth = Average()
        self.pulls = Pulls(world, host)
        self.member = SimMember(self)
        self.control = self.member.link
        host.processes[node_process_id(self.prefix)] = self
        self.member.start()
        host.every(world.options.tick_s, lambda: world.guard(host, self._tick))

    def guarded(self, action: Action) -> None:
        """Do this as one of the node's own steps."""
        self.world.guard(self.host, action)
        self.world.guard(self.host, self._round)

    def stop(self, reason: str) -> None:
        """The node's process ends after this, and all its processes with it."""
        self.world.node_stops(self, reason)

    # ---- time and ends -----------------------------------------------------------------------

    def _tick(self) -> None:
        self.on_tick(self.clock())
        self._round()

    def _round(self) -> None:
        self.on_round()
        self.world.look(self)

    def on_end(self, end: End) -> None:
        """See Process."""
        if self.member.is_lost(end):
            pass
        elif end.tag == "node":
            self.others.connection_lost(cast(Any, end))
        elif end.peer and self.peers.get(end.peer) is end:
            del self.peers[end.peer]
            if end.tag in ("driver", "worker"):
                self.process_gone(end.peer, self.clock(), end.tag == "driver")
        self._round()

    # ---- messages ----------------------------------------------------------------------------

    def on_message(self, end: End, message: Message) -> None:
        """See Process."""
        if end.tag == "node":
            self.others.on_message(cast(Any, end), message)
        elif self.member.is_control(end):
            self.member.on_message(message)
        else:
            self.on_process_message(end, message)
        self._round()

    def on_process_message(self, end: Any, message: Message) -> None:
        """A driver or worker says something; those of other nodes through theirs."""
        now = self.clock()
        if self.on_owner_message(end.peer, message, now):
            return
        match message:
            case Hello():
                self._hello(end, message, now)
            case Request():
                self._request(end, message)
            case Stop():
                self.loop.lose(end)
            case Dropped():
                self.world.drop_file(message.name)

    def _request(self, end: End, request: Request) -> None:
        if request.method == "register_driver":
            self.jobs.register(cast(Any, end), request.token, request.args)
            return
        if request.method == "pull":
            self._pull(end, request)
            return
        assert request.method in FOR_CONTROL or request.method.startswith("batch.")
        if request.method == "create_group":
            self.member.report_now()

        def answered(answer: Answer) -> None:
            if request.token:
                end.post(Reply(request.token, answer.result, answer.error))

        self.control.ask(end.peer, request.method, request.args, answered)

    def _pull(self, end: End, request: Request) -> None:
        def done(is_here: bool) -> None:
            error = None if is_here else ("ObjectLostError", "it is gone")
            end.post(Reply(request.token, None, error))

        self.pulls.pull(request.args["name"], done)

    def _hello(self, end: End, message: Hello, now: float) -> None:
        if message.kind == "node":
            end.peer, end.tag = message.process, "node"
            self.others.introduced(cast(Any, end), message.process[:PREFIX_BYTES])
            return
        if self.leases.workers.get(message.process) is None:
            self.loop.lose(end)
            return
        end.peer, end.tag = message.process, message.kind
        self.peers[message.process] = end
        self.leases.worker_ready(message.process, message.pid, now)

    def local_peers(self) -> list[Any]:
        """Connections to this node's own processes."""
        return [end for end in self.peers.values() if end.tag in ("driver", "worker")]

    # ---- effects of the lease machine and of spilling ----------------------------------------

    def ask_zygote(self, method: str, **args: Any) -> None:
        """Members of jobs run commands."""
        if method == "run":
            self.members.run(args["worker"], args["argv"])
        else:
            self.members.signal(args["worker"], args["signal"])

    def start_worker(self, worker: WorkerRecord) -> None:
        """See leases.Effects."""
        worker.is_started = True
        self.processes.start(worker.worker_id)

    def kill(self, worker_id: bytes) -> None:
        """See MessageDispatcher."""
        self.processes.kill(worker_id)

    def warn(self, worker_id: bytes) -> None:
        """See MessageDispatcher."""
        self.processes.warn(worker_id)
