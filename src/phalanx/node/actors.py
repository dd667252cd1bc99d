"""The actors of this node. Each actor gets a worker, is created in this worker, and is watched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from phalanx.model.ids import CONTROL, BundleId, GroupId, group_id_of
from phalanx.node.dispatch import MessageTable, PeerMessageTable
from phalanx.node.gpu_shares import GpuShares, NoMpsDaemons
from phalanx.node.head_link import HeadLink
from phalanx.node.known_jobs import KnownJobs
from phalanx.node.leases.machine import LeaseMachine
from phalanx.node.leases.model import Demand, Lease
from phalanx.node.peers import Peer, Peers
from phalanx.node.standing import always_sure
from phalanx.node.workers import WorkerRecord
from phalanx.protocol.actor_messages import (
    ActorHere,
    ActorPlaced,
    ActorRefused,
    EndActor,
    PlaceActor,
    WithdrawActor,
)
from phalanx.protocol.cluster_messages import Via
from phalanx.protocol.frames import encode_body
from phalanx.protocol.node_messages import (
    ActorFailed,
    ActorLeaving,
    ActorReady,
    ActorUnreferenced,
    CreateActor,
    WorkerEnding,
    WorkerLeaving,
)
from phalanx.scheduler.devices.sets import ResourceSet


class GroupLookup(Protocol):
    """Knows where the bundles of placement groups are."""

    def look_up(self, group: GroupId) -> None:
        """Ask the head where the bundles of a placement group are, unless it was asked before."""
        ...


class EndsWorkers(Protocol):
    """Ends worker processes."""

    def end_worker(self, worker: WorkerRecord, reason: str, force: bool) -> None:
        """End a worker for this reason. The reason replaces any earlier one."""
        ...

    def leaves(self, worker: bytes, reason: str) -> None:
        """Note that a worker ends of its own accord, so its end is no crash. A reason that was
        noted before is kept.
        """
        ...

    def finishes(self, worker: bytes, now: float) -> None:
        """Note that a worker has done its work. Its process gets some time to end."""
        ...


class NodeActors:
    """Carries out the head's orders about actors."""

    def __init__(
        self,
        clock: Callable[[], float],
        leases: LeaseMachine,
        *,
        groups: GroupLookup,
        workers: EndsWorkers,
        peers: Peers,
        jobs: KnownJobs,
        head: HeadLink,
        report_needed: Callable[[], None],
        gpus: GpuShares | None = None,
        may_begin: Callable[[], bool] = always_sure,
    ) -> None:
        """`report_needed` reports this node's free resources to the head. It is called before each
        message whose receivers may immediately use these resources. `gpus`: the shares of GPUs that
        actors may use. `may_begin` returns whether it is certain that the head has not given this
        node up. If it is not certain, `begin_waiting` is called as soon as it is.
        """
        self._may_begin = may_begin
        self._waiting: list[Lease] = []
        """Leases whose actors are not made yet, because the head may have given this node up."""
        self._gpus = gpus or GpuShares(NoMpsDaemons())
        self._clock = clock
        self._report_needed = report_needed
        self._leases = leases
        self._groups = groups
        self._workers = workers
        self._peers = peers
        self._jobs = jobs
        self._head = head
        self._orders: dict[bytes, PlaceActor] = {}
        """The orders whose actors wait for a worker."""
        self._made: dict[int, int] = {}
        """For each lease, by number: the incarnation of the actor that the lease's worker has
        created.
        """

    def handle_in(self, from_head: MessageTable, from_processes: PeerMessageTable) -> None:
        """Register the handlers for orders of the head and messages of processes about actors."""
        from_head.on(PlaceActor, self.place)
        from_head.on(WithdrawActor, self.withdraw)
        from_head.on(EndActor, self.end)
        from_processes.on(ActorReady, self._ready)
        from_processes.on(ActorFailed, self._pass_to_head)
        from_processes.on(ActorLeaving, self._leaving)
        from_processes.on(WorkerLeaving, self._worker_leaving)
        from_processes.on(WorkerEnding, self._worker_ending)
        from_processes.on(ActorUnreferenced, self._pass_to_head)

    def _ready(self, peer: Peer, message: ActorReady) -> None:
        """Report this node's free resources, and then that the actor is ready. A process that hears
        of the actor may immediately place work that depends on these resources.
        """
        self._report_needed()
        self._pass_to_head(peer, message)

    def _leaving(self, peer: Peer, message: ActorLeaving) -> None:
        self._workers.leaves(peer.peer, message.reason)
        self._pass_to_head(peer, message)

    def _worker_leaving(self, peer: Peer, message: WorkerLeaving) -> None:
        self._workers.leaves(peer.peer, message.reason)

    def _worker_ending(self, peer: Peer, message: WorkerEnding) -> None:
        self._workers.finishes(peer.peer, self._clock())

    def _pass_to_head(
        self,
        peer: Peer,
        message: ActorReady | ActorFailed | ActorLeaving | ActorUnreferenced,
    ) -> None:
        self._head.notify(Via(peer.peer, encode_body([message])))

    def place(self, order: PlaceActor) -> None:
        """Ask the lease machine for a worker for an actor. A repeated order does nothing."""
        if self._is_known(order):
            return
        self._orders[order.actor] = order
        group = order.strategy.get("group")
        place = None if group is None else (group_id_of(group), order.strategy["bundle"])
        if place is not None:
            self._groups.look_up(place[0])
        try:
            self._want(order, place)
        except Exception:
            self._orders.pop(order.actor, None)  # the head learns that the actor was not made
            raise

    def _want(self, order: PlaceActor, place: BundleId | None) -> None:
        self._leases.want(
            self._clock(),
            owner=CONTROL,
            scheduling_class=0,
            actor=order.actor,
            place=ResourceSet.from_mapping(order.place),
            hold=ResourceSet.from_mapping(order.hold),
            count=1,
            job=order.job,
            environment=order.environment,
            priority=order.priority,
            group=place,
            strategy={},
            any_gpu_memory=bool(order.strategy.get("any_gpu_memory")),
            retriable=order.restarts,
            asker=self,
        )

    def _is_known(self, order: PlaceActor) -> bool:
        waits = self._orders.get(order.actor)
        if waits is not None:
            return waits.incarnation == order.incarnation
        leases = [x for x in self._leases.leases.values() if x.demand.actor == order.actor]
        return any(self._made.get(x.number) == order.incarnation for x in leases)

    def withdraw(self, message: WithdrawActor) -> None:
        """Stop the search for a worker: the actor needs no worker of this node any more."""
        self._leases.withdraw_actor(message.actor)
        self._orders.pop(message.actor, None)

    def end(self, message: EndActor) -> None:
        """End the actor's process."""
        worker = self._leases.workers.get(message.worker)
        if worker is not None:
            # When the same order comes again later, it makes a new actor.
            self._made.pop(worker.lease, None)
            self._workers.end_worker(worker, message.reason, message.force)

    def here(self) -> dict[bytes, ActorHere]:
        """Return all actors of this node, each with its worker and incarnation."""
        having = {
            lease.demand.actor: ActorHere(lease.worker.worker_id, self._made.get(lease.number, -1))
            for lease in self._leases.leases.values()
            if lease.demand.actor
        }
        waiting = {actor: ActorHere(b"", x.incarnation) for actor, x in self._orders.items()}
        return having | waiting

    # ---- as the asker of the actors' demands -------------------------------------------------

    def granted(self, lease: Lease) -> None:
        """Make the worker of the lease create its actor, as soon as it is certain that the head has
        not given this node up.
        """
        if self._may_begin():
            self._make(lease)
        else:
            self._waiting.append(lease)

    def begin_waiting(self) -> None:
        """Create the actors that waited until it was certain that the head has not given this node
        up. An actor whose worker has ended meanwhile gets another worker.
        """
        waiting, self._waiting = self._waiting, []
        for lease in waiting:
            if self._leases.leases.get(lease.number) is lease:
                self.granted(lease)
            elif (order := self._orders.pop(lease.demand.actor, None)) is not None:
                self.place(order)

    def _make(self, lease: Lease) -> None:
        worker = lease.worker
        connection = self._peers.get(worker.worker_id)
        if connection is not None:
            self._jobs.set_up(connection, lease.demand.job)
        order = self._orders.pop(lease.demand.actor, None)
        if order is None or connection is None:
            self._leases.returned(lease.number, connection is not None, self._clock())
            return
        try:
            variables = self._gpus.variables(
                lease.rest, lease.pool, is_limited=not lease.demand.any_gpu_memory
            )
        except OSError as error:
            self._workers.end_worker(worker, f"GPUs cannot be shared by MPS: {error}", True)
            return
        group = lease.demand.group
        self._made = {n: at for n, at in self._made.items() if n in self._leases.leases}
        self._made[lease.number] = order.incarnation
        self._head.notify(ActorPlaced(order.actor, order.incarnation, worker.worker_id, worker.pid))
        connection.post(
            CreateActor(
                order.actor,
                order.incarnation,
                order.creation,
                lease.resources,
                lease.devices,
                order.job,
                order.name,
                order.namespace,
                None if group is None else group[0],
                bool(order.strategy.get("capture")),
                lease.gang,
                order.lived_before,
                variables,
            )
        )

    def due(self, lease: Lease) -> None:
        """Do nothing: leases of actors never become due."""

    def refused(self, demand: Demand, reason: str, code: str) -> None:
        """Report to the head that this node cannot run the actor now. `code`: the code of an error
        if the node can never run the actor; otherwise "".
        """
        if code:
            self._orders.pop(demand.actor, None)
        self._head.notify(ActorRefused(demand.actor, reason, code))
