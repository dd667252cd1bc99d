"""The node: a thin shell around the machines of leases, bundles and shared memory.

One thread, one epoll loop. It never unpickles anything: what users wrote passes through as bytes.
On a single machine the control store's machines live here as well.
"""

from __future__ import annotations

import signal
import socket
import sys
import time
from typing import Any

from phalanx.engines.declared_topology import read_topology
from phalanx.engines.embedded.connection import Connection, listen
from phalanx.engines.embedded.node.actors import NodeActors
from phalanx.engines.embedded.node.config import NodeConfig
from phalanx.engines.embedded.node.control import ControlLink
from phalanx.engines.embedded.node.events import NodeEvents
from phalanx.engines.embedded.node.exits import NodeExits
from phalanx.engines.embedded.node.groups import OF_GROUPS, NodeGroups
from phalanx.engines.embedded.node.job_members import OF_MEMBERS, NodeMembers
from phalanx.engines.embedded.node.jobs import NodeJobs
from phalanx.engines.embedded.node.loop import NodeLoop
from phalanx.engines.embedded.node.membership import Membership, membership, spilling
from phalanx.engines.embedded.node.others import OtherNodes
from phalanx.engines.embedded.node.requests import NodeRequests, is_for_visitors
from phalanx.engines.embedded.node.store import NodeStore
from phalanx.model.ids import PREFIX_BYTES, node_prefix
from phalanx.node.bundle_table import BundleTable
from phalanx.node.demands import Demand
from phalanx.node.group_places import GroupPlaces
from phalanx.node.leases import Lease, LeaseMachine
from phalanx.node.workers import WorkerPool, WorkerRecord
from phalanx.objects.names import prefix_of_name
from phalanx.policies.averages import Average
from phalanx.protocol.cluster_messages import (
    ClaimRoom,
    EndActor,
    EnvironmentKnown,
    EventsTold,
    Happened,
    JobEnded,
    JobKnown,
    NodeDied,
    PlaceActor,
    Prefetch,
    PrepareBundles,
    ProcessEnded,
    QueueWeights,
    SetTotals,
    TellEvents,
    Via,
    View,
    WithdrawActor,
)
from phalanx.protocol.frames import decode_body, encode_body
from phalanx.protocol.messages import (
    PREEMPTED,
    PROTOCOL_VERSION,
    ActorFailed,
    ActorLeaving,
    ActorReady,
    ActorUnreferenced,
    Blocked,
    Claimed,
    Dropped,
    Events,
    Granted,
    Hello,
    KillWorker,
    LeaseDue,
    LeaseReturned,
    LeaseWanted,
    LogLine,
    ReadersTold,
    Refused,
    Request,
    Sealed,
    Settled,
    Stop,
    Terminate,
    Unblocked,
    Used,
)
from phalanx.resources.instances import NodeResources
from phalanx.resources.sets import ResourceSet

_FOR_CONTROL = (ActorReady, ActorFailed, ActorLeaving, ActorUnreferenced)


class NodeShell:
    """Runs the machines' effects: sockets, processes, files."""

    def __init__(self, config: NodeConfig, zygote_sock: socket.socket) -> None:
        self.config = config
        self.clock = time.monotonic
        self.session = config.session
        self.prefix = node_prefix(config.node_id)
        self.peers: dict[bytes, Any] = {}
        """Connections to this node's processes, and stand-ins for those of other nodes."""
        self._zygote = Connection(zygote_sock)
        listener = listen(self.session.socket_of(b"node"))
        self.loop = NodeLoop(self, listener, self._zygote)
        wiring = read_topology(config.topology) if config.topology else None
        if wiring is not None and len(wiring.numa) < config.resources.get("GPU", 0):
            wiring = None  # of fewer devices than this node declares
        self.resources = NodeResources(
            config.resources, frozenset(config.unit_resources), topology=wiring
        )
        self.jobs = NodeJobs(self)
        self.exits = NodeExits(self)
        self.actors = NodeActors(self)
        self.groups = NodeGroups(self)
        self.members = NodeMembers(self)
        self.others = OtherNodes(self)
        self.store = NodeStore(self)
        self.bundles = BundleTable(self.resources)
        places = GroupPlaces(config.node_id, self.bundles)
        self.spilling = spilling(self, places)
        pool = WorkerPool(max(1, int(config.resources.get("CPU", 1))), self.jobs.new_process)
        self.leases = LeaseMachine(
            self.resources, self, pool, config.node_id, config.labels, places, self.spilling
        )
        self.happened = NodeEvents(self)
        self._requests = NodeRequests(self)
        self._must_plan = False
        self.bandwidth = Average()
        """Of objects that came from other nodes, in bytes a second."""
        self.member: Membership = membership(self)
        self.control: ControlLink = self.member.link

    def serve(self, driver: Connection | None) -> None:
        """Until told to stop, or the driver that it lives with is gone."""
        if driver is not None:
            self.loop.watch(driver)
        if self.config.parent_fd >= 0:
            self.loop.call_when_readable(self.config.parent_fd, self.stop)
        self.member.start()
        self.loop.serve()
        self.member.stop()

    def stop(self) -> None:
        """End after this round."""
        self.loop.is_stopping = True

    # ---- time and ends -----------------------------------------------------------------------

    def on_lost(self, connection: Connection) -> None:
        """A connection has ended."""
        if connection is self._zygote:
            self.loop.is_stopping = True
        elif self.member.is_lost(connection):
            return
        elif connection.tag == "node":
            self.others.connection_lost(connection)
        elif connection.peer and self.peers.get(connection.peer) is connection:
            del self.peers[connection.peer]
            if connection.tag == "driver":
                self._driver_gone(connection.peer)
            elif connection.tag == "worker":
                self.process_gone(connection.peer, time.monotonic())

    def _driver_gone(self, driver: bytes) -> None:
        self.process_gone(driver, time.monotonic(), is_driver=True)
        if self.config.lives_with_driver:
            self.loop.is_stopping = True

    def process_gone(self, process: bytes, now: float, is_driver: bool = False) -> None:
        """A driver or worker of this node has ended: what it had goes."""
        self.leases.owner_gone(process, now)
        self.spilling.owner_gone(process)
        self.others.process_gone(process, is_driver)
        self.control.tell(ProcessEnded(process, is_driver))
        self.store.process_gone(process)

    def on_tick(self, now: float) -> None:
        """Time has passed."""
        self.leases.tick(now)
        if self.bundles.tick(now):
            self.leases.dispatch(now)
        self.store.pulls.tick(now)
        self.groups.tick(now)
        self.members.tick(now)
        self.groups.settle()
        self.member.tick(now)
        if not self.spilling.is_alone and self.leases.waiting:
            self._must_plan = True
        self.exits.relieve_memory(now)

    def on_round(self) -> None:
        """All messages that had come are handled."""
        self.groups.settle()
        self.member.round()
        if self._must_plan:
            self._must_plan = False
            self._plan()
            self.member.round()

    def note(self, text: str) -> None:
        """Something that a person who reads the node's log wants to know."""
        print(f"phalanx: {text}", file=sys.stderr, flush=True)

    def plan_soon(self) -> None:
        """What is asked of other nodes is to be looked at again."""
        self._must_plan = True

    def report_soon(self) -> None:
        """What is free here has changed in a way that the control store waits for."""
        self.member.report_soon()

    def _plan(self) -> None:
        now = time.monotonic()
        if self.spilling.is_alone:
            for demand in self.leases.waiting.all():
                demand.here = -1
        elif not self.member.awaits_view(now):  # the view that comes has it planned again
            self.spilling.put(self.member.own_row())
            self.spilling.plan(self.leases.waiting.all(), self.member.is_blind)
        self.leases.dispatch(now)

    # ---- messages ----------------------------------------------------------------------------

    def on_message(self, connection: Connection, message: Any) -> None:
        """A message came."""
        if connection is self._zygote:
            self._from_zygote(message)
        elif connection.tag == "node":
            self.others.on_message(connection, message)
        elif self.member.is_control(connection):
            self.member.on_message(connection, message)
        elif not connection.peer and not _introduces(message):
            self.loop.lose(connection)
        else:
            self.on_process_message(connection, message)

    def _from_zygote(self, message: Any) -> None:
        match message:
            case Request(method="drained"):
                self.exits.drained()
            case Request(method="runs"):
                self.members.runs(message.args["worker"], message.args["pid"])
            case Request():
                self.exits.worker_exited(message.args, time.monotonic())
            case LogLine():
                self.exits.log(message)

    def on_process_message(  # noqa: PLR0912, PLR0915
        self, connection: Any, message: Any
    ) -> None:
        """A driver or worker says something; those of other nodes through theirs."""
        # One line a message: this is the node's table of what it understands.
        now = time.monotonic()
        peer: bytes = connection.peer
        match message:
            case Hello():
                self._hello(connection, message, now)
            case Request():
                self._requests.answer(connection, message)
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
                    self.kill(lease.worker.worker_id)
            case Blocked():
                self.leases.blocked(peer, now)
            case Unblocked():
                self.leases.unblocked(peer)
            case Sealed():
                self.store.sealed(message.name, message.size, peer)
            case Claimed():
                if not self.others.pass_on(prefix_of_name(message.name), peer, message):
                    self.store.claimed(message.name, peer)
            case Settled():
                if not self.others.pass_on(message.worker, peer, message):
                    self.store.settled(message.worker, peer)
            case Used():
                self.store.used(message.name, peer)
            case ReadersTold():
                self.store.readers_told(message.prefix, peer)
            case Dropped():
                if self.others.pass_on(prefix_of_name(message.name), peer, message):
                    self.store.copy_dropped(message.name)
                else:
                    self.store.dropped(message.name, message.size, peer)
            case Prefetch():
                self.store.prefetch(message)
            case _ if isinstance(message, _FOR_CONTROL):
                self.control.tell(Via(peer, encode_body([message])))
            case Happened():
                self.happened.ring.extend(message.rows)
            case Events():
                self.happened.runs += message.rows
            case Stop() if connection.tag == "driver":
                self.loop.lose(connection)
            case _:
                self.loop.lose(connection)

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
                self.store.owner_gone(message.driver, message.files)
            case ClaimRoom():
                self.leases.claim(message, time.monotonic())
            case _ if isinstance(message, OF_GROUPS):
                if isinstance(message, PrepareBundles):
                    self.leases.claims.end(message.group)  # what was kept for it is for this
                self.groups.on_control(message)
            case _ if isinstance(message, OF_MEMBERS):
                self.members.on_control(message)
            case SetTotals():
                self.leases.set_totals(message.totals, time.monotonic())
            case QueueWeights():
                self.leases.shares.weights = message.weights
            case TellEvents():
                self.control.report(EventsTold(message.number, self.happened.ring.rows()))

    def _hello(self, connection: Connection, message: Hello, now: float) -> None:
        if message.version != PROTOCOL_VERSION or message.process in self.peers:
            self.loop.lose(connection)
            return
        if message.kind == "node":
            connection.peer, connection.tag = message.process, "node"
            self.others.introduced(connection, message.process[:PREFIX_BYTES])
            return
        if self.leases.workers.get(message.process) is None:
            self.loop.lose(connection)
            return
        connection.peer = message.process
        connection.tag = message.kind
        self.peers[message.process] = connection
        self.leases.worker_ready(message.process, message.pid, now)
        self.jobs.end_warming(message.process[12:])

    def _lease_wanted(self, peer: bytes, message: LeaseWanted, now: float) -> None:
        resources = ResourceSet.from_mapping(message.resources)
        strategy = message.strategy
        group = strategy.get("group")
        if "near" in strategy:
            strategy = {**strategy, "near": self.others.node_id(strategy["near"])}
        is_mine = peer[:PREFIX_BYTES] == self.prefix
        demand = self.want(
            now,
            owner=peer,
            scheduling_class=message.scheduling_class,
            place=resources,
            hold=resources,
            count=message.count,
            job=peer[12:],
            environment=message.environment,
            priority=message.priority,
            queue=message.queue,
            group=None if group is None else (bytes.fromhex(group), strategy.get("bundle", -1)),
            strategy=strategy,
            seen=message.seen,
            here=0 if is_mine and group is None and self.spilling.must_plan(strategy) else -1,
        )
        if demand is not None and is_mine:
            self.happened.queued(demand)

    def want(self, now: float, **fields: Any) -> Demand | None:
        """Set a demand, and look what other nodes can do about it. What is left of it."""
        if fields["group"] is not None and fields["count"] > 0:
            self.groups.look_up(fields["group"][0])
        if fields["owner"][:PREFIX_BYTES] == self.prefix:  # others plan for theirs
            self._must_plan = True
        return self.leases.want(now, **fields)

    def local_peers(self) -> list[Connection]:
        """Connections to this node's own processes."""
        return [c for c in self.peers.values() if isinstance(c, Connection)]

    def way_to(self, process: bytes) -> Any:
        """Where a message for a process, of this node or another, is posted."""
        found = self.peers.get(process)
        if found is None and process[:PREFIX_BYTES] != self.prefix:
            return self.others.peer(process)
        return found

    # ---- effects of the lease machine and of spilling ----------------------------------------

    def ask_zygote(self, method: str, **args: Any) -> None:
        """Have the zygote do something."""
        self._zygote.post(Request(0, method, args))

    def start_worker(self, worker: WorkerRecord) -> None:
        """Fork a worker."""
        worker.is_started = True
        variables = self.jobs.environments.get(worker.environment, {})
        self.ask_zygote("fork", worker=worker.worker_id, environment=variables)

    def stop_worker(self, worker: WorkerRecord, reason: str, force: bool) -> None:
        """End a worker's process."""
        self.exits.reasons.setdefault(worker.worker_id, (reason, "exited"))
        connection = self.peers.get(worker.worker_id)
        if force or connection is None:
            self.kill(worker.worker_id)
        else:
            connection.post(Terminate(reason))

    def end_worker(self, worker: WorkerRecord, reason: str, force: bool) -> None:
        """End a worker's process for this reason, whatever it was to end for before."""
        self.exits.reasons.pop(worker.worker_id, None)
        self.stop_worker(worker, reason, force)

    def warn_worker(self, worker: WorkerRecord) -> None:
        """End a worker's process by SIGTERM, for others."""
        self.exits.reasons[worker.worker_id] = ("it was preempted", PREEMPTED)
        self.ask_zygote("kill", worker=worker.worker_id, signal=int(signal.SIGTERM))

    def kill(self, worker_id: bytes) -> None:
        """End a worker's process at once."""
        self.ask_zygote("kill", worker=worker_id, signal=int(signal.SIGKILL))

    def granted(self, lease: Lease) -> None:
        """A lease has its worker: tell the owner, or make the actor."""
        worker = lease.worker
        connection = self.peers.get(worker.worker_id)
        if connection is not None:
            self.jobs.set_up(connection, worker.worker_id, lease.demand.job)
        if lease.demand.actor:
            self.actors.granted(lease)
            return
        owner = self.peers.get(lease.demand.owner)
        if owner is None:
            self.leases.returned(lease.number, True, time.monotonic())
            return
        self.happened.granted(lease)
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
        """Ask for a lease back."""
        owner = self.peers.get(lease.demand.owner)
        if owner is not None:
            owner.post(LeaseDue(lease.number))

    def refused(self, demand: Demand, reason: str, error: str) -> None:
        """Tell who waits why."""
        if demand.actor:
            self.actors.refused(demand, reason, error)
            return
        owner = self.peers.get(demand.owner)
        if owner is not None:
            owner.post(Refused(demand.scheduling_class, reason, bool(error), error))

    def ask(self, node_id: str, demand: Demand, count: int, seen: int) -> None:
        """Ask another node for workers."""
        self.happened.asked(demand, node_prefix(node_id), count)
        self.others.ask(node_prefix(node_id), demand, count, seen)

    def withdraw(
        self, node_id: str, owner: bytes, scheduling_class: int, is_over: bool = False
    ) -> None:
        """Ask another node for no more workers."""
        self.others.withdraw(node_prefix(node_id), owner, scheduling_class, is_over)


def _introduces(message: Any) -> bool:
    """Whether a stranger may begin with this message."""
    if isinstance(message, Request):
        return message.method == "register_driver" or is_for_visitors(message.method)
    return isinstance(message, Hello)
