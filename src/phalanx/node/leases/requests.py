"""Handles owners' requests for leases, and tells owners about the leases that they want and hold.

An owner talks only to its own node. Leases with negative numbers belong to other nodes (see
`remote`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from phalanx.model.ids import PREFIX_BYTES, group_id_of
from phalanx.node.actors import GroupLookup
from phalanx.node.dispatch import PeerMessageTable
from phalanx.node.events import NodeEvents
from phalanx.node.gpu_shares import GpuShares, NoMpsDaemons
from phalanx.node.known_jobs import KnownJobs
from phalanx.node.leases.machine import LeaseMachine
from phalanx.node.leases.model import Asker, Demand, Lease
from phalanx.node.no_other_nodes import Spills
from phalanx.node.node_links import NodeLinks
from phalanx.node.peers import Peer, Peers
from phalanx.node.spillback_planner import PlanRequests
from phalanx.node.workers import WorkerRecord
from phalanx.protocol.node_messages import (
    Blocked,
    Granted,
    KillWorker,
    LeaseDue,
    LeaseReturned,
    LeaseWanted,
    Refused,
    Unblocked,
)
from phalanx.scheduler.devices.sets import ResourceSet
from phalanx.scheduler.placement.strategies import check_strategy


class Borrowed(Protocol):
    """The leases that this node's owners hold on other nodes."""

    def returned(self, owner: bytes, message: LeaseReturned) -> None:
        """Give a lease back to its node, on behalf of its owner."""
        ...

    def kill(self, owner: bytes, message: KillWorker) -> None:
        """End the worker of a lease on behalf of its owner."""
        ...


class OwnerLeases:
    """The leases that owners hold, here and on other nodes. This class is the asker of the demands
    of owners.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        leases: LeaseMachine,
        *,
        borrowed: Borrowed,
        peers: Peers,
        jobs: KnownJobs,
        events: NodeEvents,
        kill_worker: Callable[[bytes], None],
        gpus: GpuShares | None = None,
        end_worker: Callable[[WorkerRecord, str, bool], None] = lambda worker, reason, force: None,
    ) -> None:
        """`gpus`: the shares of GPUs that work may use. `kill_worker` kills a worker by its process
        id. `end_worker` ends a worker for a reason, by force if the last argument says so.
        """
        self._clock = clock
        self._leases = leases
        self._borrowed = borrowed
        self._peers = peers
        self._jobs = jobs
        self._events = events
        self._kill_worker = kill_worker
        self._gpus = gpus or GpuShares(NoMpsDaemons())
        self._end_worker = end_worker

    def handle_in(self, table: PeerMessageTable) -> None:
        """Register the handlers for messages of drivers and workers about leases that they hold."""
        table.on(LeaseReturned, self._returned)
        table.on(KillWorker, self._kill)
        table.on(Blocked, self._blocked)
        table.on(Unblocked, self._unblocked)

    def handle_from_afar_in(self, table: PeerMessageTable) -> None:
        """Register the handlers for messages that processes of other nodes may send."""
        table.on(LeaseReturned, self._returned)
        table.on(KillWorker, self._kill)

    def _returned(self, peer: Peer, message: LeaseReturned) -> None:
        if message.lease < 0:
            self._borrowed.returned(peer.peer, message)
        else:
            self._leases.returned(message.lease, message.reusable, self._clock())

    def _kill(self, peer: Peer, message: KillWorker) -> None:
        if message.lease < 0:
            self._borrowed.kill(peer.peer, message)
            return
        lease = self._leases.leases.get(message.lease)
        if lease is not None and lease.demand.owner == peer.peer:
            # If the lease is given back before, no other owner is served.
            lease.worker.is_leaving = True
            self._kill_worker(lease.worker.worker_id)

    def _blocked(self, peer: Peer, message: Blocked) -> None:
        self._leases.blocked(peer.peer, self._clock())

    def _unblocked(self, peer: Peer, message: Unblocked) -> None:
        self._leases.unblocked(peer.peer)

    # ---- as the asker of the owners' demands -------------------------------------------------

    def granted(self, lease: Lease) -> None:
        """Give the lease to its owner. If the owner is gone, take the lease back immediately."""
        worker = lease.worker.worker_id
        connection = self._peers.get(worker)
        if connection is not None:
            self._jobs.set_up(connection, lease.demand.job)
        owner = self._peers.get(lease.demand.owner)
        if owner is None:
            self._leases.returned(lease.number, True, self._clock())
            return
        try:
            variables = self._gpus.variables(
                lease.rest, lease.pool, is_limited=not lease.demand.any_gpu_memory
            )
        except OSError as error:
            self._end_worker(lease.worker, f"GPUs cannot be shared by MPS: {error}", True)
            return
        self._events.granted(lease)
        owner.post(
            Granted(
                lease.demand.scheduling_class,
                lease.number,
                worker,
                lease.resources,
                lease.devices,
                lease.gang,
                variables,
            )
        )

    def due(self, lease: Lease) -> None:
        """Tell the owner that the lease is due."""
        self._peers.post(lease.demand.owner, LeaseDue(lease.number))

    def refused(self, demand: Demand, reason: str, code: str) -> None:
        """Tell the owner why its demand cannot be met."""
        refusal = Refused(demand.scheduling_class, reason, bool(code), code)
        self._peers.post(demand.owner, refusal)


class LeaseRequests:
    """Turns owners' requests for workers into demands."""

    def __init__(
        self,
        prefix: bytes,
        clock: Callable[[], float],
        *,
        leases: LeaseMachine,
        asker: Asker,
        groups: GroupLookup,
        plans: PlanRequests,
        spilling: Spills,
        links: NodeLinks,
        events: NodeEvents,
    ) -> None:
        self._prefix = prefix
        self._clock = clock
        self._leases = leases
        self._asker = asker
        self._groups = groups
        self._plans = plans
        self._spilling = spilling
        self._links = links
        self._events = events

    def wanted(self, peer: Peer, message: LeaseWanted) -> None:
        """Store how many workers of a class a process would use. The process may be on another
        node.
        """
        owner = peer.peer
        strategy = message.strategy
        if strategy:
            check_strategy(strategy)
        if "near" in strategy:
            strategy = {**strategy, "near": self._links.node_id(bytes.fromhex(strategy["near"]))}
        group = strategy.get("group")
        place = None if group is None else (group_id_of(group), strategy.get("bundle", -1))
        resources = ResourceSet.from_mapping(message.resources)
        is_mine = owner[:PREFIX_BYTES] == self._prefix
        if place is not None and message.count > 0:
            self._groups.look_up(place[0])
        if is_mine:  # other nodes make the plans for their own processes
            self._plans.request()
        demand = self._leases.want(
            self._clock(),
            owner=owner,
            scheduling_class=message.scheduling_class,
            place=resources,
            hold=resources,
            count=message.count,
            job=owner[12:],
            environment=message.environment,
            priority=message.priority,
            queue=message.queue,
            group=place,
            strategy=strategy,
            seen=message.seen,
            any_gpu_memory=bool(strategy.get("any_gpu_memory")),
            retriable=message.retriable,
            is_own=is_mine,
            here=0 if is_mine and place is None and self._spilling.must_plan(strategy) else -1,
            asker=self._asker,
        )
        if demand is not None and is_mine and not self._spilling.is_alone:
            self._events.queued(demand)
