"""The actors whose workers are on this node: found a worker, made, watched until they end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from phalanx.model.ids import CONTROL
from phalanx.node.demands import Demand
from phalanx.node.lease import Lease
from phalanx.protocol.cluster_messages import (
    ActorPlaced,
    ActorRefused,
    EndActor,
    PlaceActor,
    WithdrawActor,
)
from phalanx.protocol.node_messages import CreateActor
from phalanx.resources.sets import ResourceSet

if TYPE_CHECKING:
    from phalanx.engines.embedded.node.shell import NodeShell


class NodeActors:
    """Does what the control store asks for actors."""

    def __init__(self, shell: NodeShell) -> None:
        self._shell = shell
        self._orders: dict[bytes, PlaceActor] = {}
        self._made: dict[int, int] = {}
        """The incarnation that each lease is for whose worker has made its actor."""

    def place(self, order: PlaceActor) -> None:
        """Ask the lease machine for a worker."""
        if self._is_told_twice(order):
            return  # a head that came back says what it had said before
        self._orders[order.actor] = order
        group = order.strategy.get("group")
        self._shell.want(
            self._shell.clock(),
            owner=CONTROL,
            scheduling_class=0,
            actor=order.actor,
            place=ResourceSet.from_mapping(order.place),
            hold=ResourceSet.from_mapping(order.hold),
            count=1,
            job=order.job,
            environment=order.environment,
            priority=order.priority,
            group=None if group is None else (bytes.fromhex(group), order.strategy["bundle"]),
            strategy={},
        )

    def _is_told_twice(self, order: PlaceActor) -> bool:
        waits = self._orders.get(order.actor)
        if waits is not None:
            return waits.incarnation == order.incarnation
        leases = self._leases_of(order.actor)
        return any(self._made.get(x.number) == order.incarnation for x in leases)

    def _leases_of(self, actor: bytes) -> list[Lease]:
        return [x for x in self._shell.leases.leases.values() if x.demand.actor == actor]

    def withdraw(self, message: WithdrawActor) -> None:
        """It needs no worker here."""
        self._shell.leases.withdraw_actor(message.actor)
        self._orders.pop(message.actor, None)

    def end(self, message: EndActor) -> None:
        """End the actor's process."""
        worker = self._shell.leases.workers.get(message.worker)
        if worker is not None:
            self._made.pop(worker.lease, None)  # told of this actor again, another is to be made
            self._shell.end_worker(worker, message.reason, message.force)

    def granted(self, lease: Lease) -> None:
        """There is a worker: it makes the actor."""
        order = self._orders.pop(lease.demand.actor, None)
        worker = lease.worker
        connection = self._shell.peers.get(worker.worker_id)
        if order is None or connection is None:
            self._shell.leases.returned(lease.number, True, self._shell.clock())
            return
        group = lease.demand.group
        self._made = {n: at for n, at in self._made.items() if n in self._shell.leases.leases}
        self._made[lease.number] = order.incarnation
        self._shell.control.tell(
            ActorPlaced(order.actor, order.incarnation, worker.worker_id, worker.pid)
        )
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
                self._shell.groups.gang_of(lease.pool),
            )
        )

    def refused(self, demand: Demand, reason: str, code: str) -> None:
        """This node cannot have it, now or (with the code of an error) ever."""
        if code:
            self._orders.pop(demand.actor, None)
        self._shell.control.tell(ActorRefused(demand.actor, reason, code))

    def here(self) -> dict[bytes, bytes]:
        """Worker by actor, of all that are on this node; empty for those that wait for one."""
        leases = self._shell.leases.leases.values()
        having = {x.demand.actor: x.worker.worker_id for x in leases if x.demand.actor}
        return having | dict.fromkeys(self._orders, b"")
