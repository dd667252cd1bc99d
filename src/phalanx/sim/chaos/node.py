"""A simulated node: the production machines of leases, bundles and spilling in a thin shell.

It is wired as `embedded.node.shell` is, and uses the same parts for groups, actors, jobs and other
nodes; processes and sockets are simulated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from phalanx.engines.embedded.node.actors import NodeActors
from phalanx.engines.embedded.node.groups import OF_GROUPS, NodeGroups
from phalanx.engines.embedded.node.job_members import OF_MEMBERS
from phalanx.engines.embedded.node.jobs import NodeJobs
from phalanx.engines.embedded.node.others import OtherNodes
from phalanx.engines.embedded.node.requests import FOR_CONTROL
from phalanx.model.ids import PREFIX_BYTES, node_prefix, node_process_id, process_id
from phalanx.node.bundle_table import BundleTable
from phalanx.node.demands import Demand
from phalanx.node.group_places import GroupPlaces
from phalanx.node.leases import Lease, LeaseMachine
from phalanx.node.spilling import Spilling
from phalanx.node.workers import WorkerPool, WorkerRecord
from phalanx.policies.averages import Average
from phalanx.protocol.cluster_messages import (
    Answer,
    CommitBundles,
    EndActor,
    EnvironmentKnown,
    JobEnded,
    JobKnown,
    NodeDied,
    PlaceActor,
    PrepareBundles,
    ProcessEnded,
    QueueWeights,
    SetTotals,
    Via,
    View,
    WithdrawActor,
)
from phalanx.protocol.frames import decode_body, encode_body
from phalanx.protocol.messages import (
    PREEMPTED,
    ActorFailed,
    ActorLeaving,
    ActorReady,
    ActorUnreferenced,
    Blocked,
    Granted,
    Hello,
    KillWorker,
    LeaseDue,
    LeaseReturned,
    LeaseWanted,
    Refused,
    Reply,
    Request,
    Stop,
    Terminate,
    Unblocked,
)
from phalanx.resources.instances import NodeResources
from phalanx.resources.sets import ResourceSet
from phalanx.scheduling.cluster_nodes import ClusterNodes
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
_FOR_CONTROL = (ActorReady, ActorFailed, ActorLeaving, ActorUnreferenced)


class _Jobs(NodeJobs):
    """Ids in order instead of random ones."""

    def new_process(self, job: bytes) -> bytes:
        node = cast(Any, self._shell)
        node.process_count += 1
        return process_id(node.prefix, node.process_count.to_bytes(6, "big"), job)


class _Groups(NodeGroups):
    """Ports are free, or not, by the seed."""

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
    """What is not simulated: a store of large objects."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


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


class SimNode:
    """One node's process."""

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
        self.peers: dict[bytes, Any] = {}
        self.loop = _Loop(self)
        self.store = _Nothing()
        self.total = total
        self.resources = NodeResources(total)
        self.jobs = _Jobs(self.as_shell)
        self.processes = Processes(self)
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
        self._must_plan = False
        self.bandwidth = Average()
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
        now = self.clock()
        self.leases.tick(now)
        if self.bundles.tick(now):
            self.leases.dispatch(now)
        self.groups.tick(now)
        self.members.tick(now)
        self.groups.settle()
        self.member.tick(now)
        if not self.spilling.is_alone and self.leases.waiting:
            self._must_plan = True
        self._round()

    def _round(self) -> None:
        self.groups.settle()
        if self._must_plan:
            self._must_plan = False
            self._plan()
        self.world.look(self)

    def _plan(self) -> None:
        now = self.clock()
        if self.spilling.is_alone:
            for demand in self.leases.waiting.all():
                demand.here = -1
        elif not self.member.awaits_view(now):  # the view that comes has it planned again
            self.cluster.put(self.member.own_row())
            self.spilling.plan(self.leases.waiting.all(), self.member.is_blind)
        self.leases.dispatch(now)

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

    def process_gone(self, process: bytes, now: float, is_driver: bool = False) -> None:
        """A driver or worker of this node has ended: what it had goes."""
        self.leases.owner_gone(process, now)
        self.spilling.owner_gone(process)
        self.others.process_gone(process, is_driver)
        self.control.tell(ProcessEnded(process, is_driver))

    def plan_soon(self) -> None:
        """What is asked of other nodes is to be looked at again."""
        self._must_plan = True

    def report_soon(self) -> None:
        """What is free here has changed in a way that the control store waits for."""
        self.member.report_soon()

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
        peer: bytes = end.peer
        match message:
            case Hello():
                self._hello(end, message, now)
            case Request():
                self._request(end, message)
            case LeaseWanted():
                self._lease_wanted(peer, message, now)
            case LeaseReturned() if message.lease < 0:
                self.others.returned(message, peer)
            case LeaseReturned():
                self.leases.returned(message.lease, message.reusable, now)
            case KillWorker() if message.lease < 0:
                self.others.kill(message, peer)
            case KillWorker():
                lease = self.leases.leases.get(message.lease)
                if lease is not None and lease.demand.owner == peer:
                    self.processes.kill(lease.worker.worker_id)
            case Blocked():
                self.leases.blocked(peer, now)
            case Unblocked():
                self.leases.unblocked(peer)
            case _ if isinstance(message, _FOR_CONTROL):
                self.control.tell(Via(peer, encode_body([message])))
            case Stop():
                self.loop.lose(end)

    def _request(self, end: End, request: Request) -> None:
        if request.method == "register_driver":
            self.jobs.register(cast(Any, end), request.token, request.args)
            return
        assert request.method in FOR_CONTROL or request.method.startswith("batch.")
        if request.method == "create_group":
            self.member.report_now()

        def answered(answer: Answer) -> None:
            if request.token:
                end.post(Reply(request.token, answer.result, answer.error))

        self.control.ask(end.peer, request.method, request.args, answered)

    def on_control(self, message: Any) -> None:  # noqa: PLR0912
        """The control store says something."""
        match message:
            case Via():
                peer = self.peers.get(message.process)
                if peer is not None:
                    for inner in decode_body(message.body):
                        peer.post(inner)
            case View():
                self.others.view(message)
            case NodeDied():
                self.others.node_died(message)
            case PlaceActor():
                self.actors.place(message)
            case WithdrawActor():
                self.actors.withdraw(message)
            case EndActor():
                self.actors.end(message)
            case JobKnown():
                self.jobs.known[message.job] = message
            case EnvironmentKnown():
                self.jobs.environments[message.key] = message.variables
            case JobEnded():
                self.jobs.ended(message.job, set(message.keep))
            case PrepareBundles():
                self.groups.prepare(message)
                self.world.promises.usage.prepared(self, message)
            case CommitBundles():
                self.groups.commit(message)
                self.world.promises.usage.committed(self, message)
            case _ if isinstance(message, OF_GROUPS):
                self.groups.on_control(message)
            case _ if isinstance(message, OF_MEMBERS):
                self.members.on_control(message)
            case QueueWeights():
                self.leases.shares.weights = message.weights
            case SetTotals():
                self.leases.set_totals(message.totals, self.clock())

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

    def _lease_wanted(self, peer: bytes, message: LeaseWanted, now: float) -> None:
        resources = ResourceSet.from_mapping(message.resources)
        strategy = message.strategy
        group = strategy.get("group")
        is_mine = peer[:PREFIX_BYTES] == self.prefix
        self.want(
            now,
            owner=peer,
            scheduling_class=message.scheduling_class,
            place=resources,
            hold=resources,
            count=message.count,
            job=peer[12:],
            environment=message.environment,
            priority=message.priority,
            group=None if group is None else (bytes.fromhex(group), strategy.get("bundle", -1)),
            strategy=strategy,
            seen=message.seen,
            here=0 if is_mine and group is None and self.spilling.must_plan(strategy) else -1,
        )

    def want(self, now: float, **fields: Any) -> None:
        """Set a demand, and look what other nodes can do about it."""
        if fields["group"] is not None and fields["count"] > 0:
            self.groups.look_up(fields["group"][0])
        if fields["owner"][:PREFIX_BYTES] == self.prefix:  # others plan for theirs
            self._must_plan = True
        self.leases.want(now, **fields)

    def local_peers(self) -> list[Any]:
        """Connections to this node's own processes."""
        return [end for end in self.peers.values() if end.tag in ("driver", "worker")]

    def way_to(self, process: bytes) -> Any:
        """Where a message for a process, of this node or another, is posted."""
        found = self.peers.get(process)
        if found is None and process[:PREFIX_BYTES] != self.prefix:
            return self.others.peer(process)
        return found

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

    def stop_worker(self, worker: WorkerRecord, reason: str, force: bool) -> None:
        """See leases.Effects."""
        self.processes.reasons.setdefault(worker.worker_id, (reason, "exited"))
        end = self.peers.get(worker.worker_id)
        if force or end is None:
            self.processes.kill(worker.worker_id)
        else:
            end.post(Terminate(reason))

    def end_worker(self, worker: WorkerRecord, reason: str, force: bool) -> None:
        """End a worker's process for this reason, whatever it was to end for before."""
        self.processes.reasons.pop(worker.worker_id, None)
        self.stop_worker(worker, reason, force)

    def warn_worker(self, worker: WorkerRecord) -> None:
        """See leases.Effects."""
        self.processes.reasons[worker.worker_id] = ("it was preempted", PREEMPTED)
        self.processes.warn(worker.worker_id)

    def granted(self, lease: Lease) -> None:
        """See leases.Effects."""
        worker = lease.worker
        end = self.peers.get(worker.worker_id)
        if end is not None:
            self.jobs.set_up(end, worker.worker_id, lease.demand.job)
        if lease.demand.actor:
            self.actors.granted(lease)
            return
        owner = self.peers.get(lease.demand.owner)
        if owner is None:
            self.leases.returned(lease.number, True, self.clock())
            return
        owner.post(
            Granted(
                lease.demand.scheduling_class,
                lease.number,
                worker.worker_id,
                lease.resources,
                lease.devices,
                self.groups.gang_of(lease.pool),
            )
        )

    def due(self, lease: Lease) -> None:
        """See leases.Effects."""
        owner = self.peers.get(lease.demand.owner)
        if owner is not None:
            owner.post(LeaseDue(lease.number))

    def refused(self, demand: Demand, reason: str, error: str) -> None:
        """See leases.Effects."""
        if demand.actor:
            self.actors.refused(demand, reason, error)
            return
        owner = self.peers.get(demand.owner)
        if owner is not None:
            owner.post(Refused(demand.scheduling_class, reason, bool(error), error))

    def ask(self, node_id: str, demand: Demand, count: int, seen: int) -> None:
        """See spilling.Asks."""
        self.others.ask(node_prefix(node_id), demand, count, seen)

    def withdraw(
        self, node_id: str, owner: bytes, scheduling_class: int, is_over: bool = False
    ) -> None:
        """See spilling.Asks."""
        self.others.withdraw(node_prefix(node_id), owner, scheduling_class, is_over)
