"""Which of a node's parts a message is for, and what the machines' effects say to whom.

The embedded node's shell is a switchboard, and so is the simulated one (`sim.chaos.node`). They
differ in what carries messages, starts processes and keeps objects.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from phalanx.model.ids import PREFIX_BYTES, node_prefix
from phalanx.node.groups import OF_GROUPS
from phalanx.node.job_members import OF_MEMBERS
from phalanx.protocol.cluster_messages import (
    ClaimRoom,
    EndActor,
    EnvironmentKnown,
    EventsTold,
    JobEnded,
    JobKnown,
    NodeDied,
    PlaceActor,
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
from phalanx.protocol.node_messages import (
    PREEMPTED,
    ActorFailed,
    ActorLeaving,
    ActorReady,
    ActorUnreferenced,
    Blocked,
    Granted,
    KillWorker,
    LeaseDue,
    LeaseReturned,
    LeaseWanted,
    Refused,
    Terminate,
    Unblocked,
)
from phalanx.resources.sets import ResourceSet

if TYPE_CHECKING:
    from phalanx.node.actors import NodeActors
    from phalanx.node.bundle_table import BundleTable
    from phalanx.node.demands import Demand
    from phalanx.node.drivers import NodeJobs
    from phalanx.node.groups import NodeGroups
    from phalanx.node.job_members import NodeMembers
    from phalanx.node.lease import Lease
    from phalanx.node.leases import LeaseMachine
    from phalanx.node.other_nodes import OtherNodes
    from phalanx.node.surroundings import Spills
    from phalanx.node.workers import WorkerRecord

_FOR_CONTROL = (ActorReady, ActorFailed, ActorLeaving, ActorUnreferenced)


class MessageDispatcher(ABC):
    """The parts are made by whoever inherits from this."""

    clock: Callable[[], float]
    prefix: bytes
    peers: dict[bytes, Any]
    """Connections to this node's processes, and stand-ins for those of other nodes."""
    bundles: BundleTable
    leases: LeaseMachine
    spilling: Spills
    jobs: NodeJobs
    actors: NodeActors
    groups: NodeGroups
    members: NodeMembers
    others: OtherNodes
    exits: Any
    store: Any
    happened: Any
    member: Any
    control: Any
    _must_plan = False

    @abstractmethod
    def kill(self, worker_id: bytes) -> None:
        """End a worker's process at once."""

    @abstractmethod
    def warn(self, worker_id: bytes) -> None:
        """Ask a worker's process to end, by SIGTERM."""

    # ---- time and ends -----------------------------------------------------------------------

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

    def on_round(self) -> None:
        """All messages that had come are handled."""
        self.groups.settle()
        self.member.round()
        if self._must_plan:
            self._must_plan = False
            self._plan()
            self.member.round()

    def plan_soon(self) -> None:
        """What is asked of other nodes is to be looked at again."""
        self._must_plan = True

    def report_soon(self) -> None:
        """What is free here has changed in a way that the control store waits for."""
        self.member.report_soon()

    def _plan(self) -> None:
        now = self.clock()
        if self.spilling.is_alone:
            for demand in self.leases.waiting.all():
                demand.here = -1
        elif not self.member.awaits_view(now):  # the view that comes has it planned again
            self.spilling.put(self.member.own_row())
            self.spilling.plan(self.leases.waiting.all(), now, self.member.is_blind)
        self.leases.dispatch(now)

    def process_gone(self, process: bytes, now: float, is_driver: bool = False) -> None:
        """A driver or worker of this node has ended: what it had goes."""
        self.leases.owner_gone(process, now)
        self.spilling.owner_gone(process)
        self.others.process_gone(process, is_driver)
        self.control.tell(ProcessEnded(process, is_driver))
        self.store.process_gone(process)

    # ---- what owners say ---------------------------------------------------------------------

    def on_owner_message(self, peer: bytes, message: Any, now: float) -> bool:
        """A process says something of leases or actors; False when it is about anything else."""
        match message:
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
            case _ if isinstance(message, _FOR_CONTROL):
                self.control.tell(Via(peer, encode_body([message])))
            case _:
                return False
        return True

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

    def way_to(self, process: bytes) -> Any:
        """Where a message for a process, of this node or another, is posted."""
        found = self.peers.get(process)
        if found is None and process[:PREFIX_BYTES] != self.prefix:
            return self.others.peer(process)
        return found

    # ---- what the control store says ---------------------------------------------------------

    def on_control(self, message: Any) -> None:  # noqa: PLR0912
        """The control store says something."""
        # One line a message: this is the table of what the node understands of it.
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
                self.leases.claim(message, self.clock())
            case _ if isinstance(message, OF_GROUPS):
                if isinstance(message, PrepareBundles):
                    self.leases.claims.end(message.group)  # what was kept for it is for this
                self.groups.on_control(message)
            case _ if isinstance(message, OF_MEMBERS):
                self.members.on_control(message)
            case SetTotals():
                self.leases.set_totals(message.totals, self.clock())
            case QueueWeights():
                self.leases.turns.shares.weights = message.weights
            case TellEvents():
                self.control.report(EventsTold(message.number, self.happened.ring.rows()))

    # ---- effects of the lease machine and of spilling ----------------------------------------

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
        self.warn(worker.worker_id)

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
            self.leases.returned(lease.number, True, self.clock())
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

    def refused(self, demand: Demand, reason: str, code: str) -> None:
        """Tell who waits why."""
        if demand.actor:
            self.actors.refused(demand, reason, code)
            return
        owner = self.peers.get(demand.owner)
        if owner is not None:
            owner.post(Refused(demand.scheduling_class, reason, bool(code), code))

    def ask(self, node_id: str, demand: Demand, count: int, seen: int) -> None:
        """Ask another node for workers."""
        self.happened.asked(demand, node_prefix(node_id), count)
        self.others.ask(node_prefix(node_id), demand, count, seen)

    def withdraw(
        self, node_id: str, owner: bytes, scheduling_class: int, is_over: bool = False
    ) -> None:
        """Ask another node for no more workers."""
        self.others.withdraw(node_prefix(node_id), owner, scheduling_class, is_over)
