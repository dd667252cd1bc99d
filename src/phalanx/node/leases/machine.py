"""The lease machine of a node: decides which worker and which resources an owner gets, and until
when.

LeaseQueue (`queue`) orders the waiting demands. `WorkerEffects` starts and ends workers. The
`asker` of a demand passes the outcome on to the process that asked for a worker.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from phalanx.errors import SystemFailureError
from phalanx.model.ids import GroupId
from phalanx.node.bundle_pool import BundlePool
from phalanx.node.bundle_table import BundleTable
from phalanx.node.claims import Claims
from phalanx.node.group_places import GroupPlaces
from phalanx.node.leases.demands import Demands
from phalanx.node.leases.model import Demand, Lease
from phalanx.node.leases.queue import LeaseQueue
from phalanx.node.no_other_nodes import NoOtherNodes, OtherNodesView
from phalanx.node.refusals import Refusal, Refusals, unschedulable
from phalanx.node.workers import WorkerPool, WorkerRecord
from phalanx.protocol.bundle_messages import ClaimRoom
from phalanx.protocol.node_messages import OVER
from phalanx.protocol.wire_errors import code_of
from phalanx.scheduler.devices.instances import NodeResources
from phalanx.scheduler.devices.sets import EMPTY, ResourceSet
from phalanx.scheduler.placement.averages import Average


class WorkerEffects(Protocol):
    """Starts and ends worker processes for the machine."""

    def start_worker(self, worker: WorkerRecord) -> None:
        """Fork a process with this record's id. `LeaseMachine.worker_ready` is called later."""
        ...

    def stop_worker(self, worker: WorkerRecord, reason: str, force: bool) -> None:
        """End the process: with `force` immediately, otherwise after its work.
        `LeaseMachine.worker_gone` is called later.
        """
        ...

    def warn_worker(self, worker: WorkerRecord) -> None:
        """Ask the process by SIGTERM to end, because it is preempted. `LeaseMachine.worker_gone` is
        called later.
        """
        ...


class LeaseMachine:
    """The demands, leases, workers and placement groups of one node."""

    def __init__(
        self,
        resources: NodeResources,
        effects: WorkerEffects,
        workers: WorkerPool,
        *,
        node_id: str,
        labels: Mapping[str, str],
        groups: GroupPlaces | None = None,
        other_nodes: OtherNodesView | None = None,
        waited: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        """`groups`: None if the node has no placement groups. `other_nodes`: None if the node is
        alone. `waited` is called for each lease with the number of seconds for which its demand
        waited.
        """
        self._waited = waited
        self.resources = resources
        self.workers = workers
        self.groups = groups or GroupPlaces(node_id, BundleTable(resources))
        self._other_nodes: OtherNodesView = other_nodes or NoOtherNodes()
        self.labels = dict(labels)
        self._effects = effects
        self.waiting = Demands()
        self.leases: dict[int, Lease] = {}
        self.turns = LeaseQueue(resources)
        self._refusals = Refusals(
            node_id, self.labels, resources, self.groups, self.turns.shares, self._other_nodes
        )
        self.claims = Claims()
        self._starts_held_until = 0.0
        self.last_lease = 0
        """The number of the last lease; 0 before the first."""
        self._actors = 0
        """The number of leases of actors."""
        self._is_dispatching = False
        self._is_stale = False
        self._changed: dict[bytes | None, None] = {}
        """The groups in which room may have become free. None stands for room outside of all
        groups.
        """
        self.run_s = Average()
        """The mean time, in seconds, for which leases of tasks are held."""
        self.look_at = math.inf
        """The time when the demands are looked at again, because a lease may become due for one of
        them then.
        """
        self.is_draining = False
        """Whether no new work may begin here, except in bundles that were promised before."""

    # ---- demands -----------------------------------------------------------------------------

    def want(self, now: float, seen: int = 0, **fields: Any) -> Demand | None:
        """Set how many more workers a class would use. 0 withdraws the demand; OVER ends the class.

        `seen`: how many grants the owner had received when it asked; later grants are subtracted
        from the number. Raises ValueError if a worker would hold more than the resources that must
        be free for it to start.
        """
        if fields["count"] == OVER:
            self.waiting.class_over(fields["owner"], fields["scheduling_class"])
            self._other_nodes.class_over(fields["owner"], fields["scheduling_class"])
            return None
        place, hold = fields["place"], fields["hold"]
        if hold is not place and not hold.is_subset(place):
            raise ValueError("the held resources are not part of those that must be free")
        starting = self._starting_for(fields["actor"]) if "actor" in fields else None
        if starting is not None:
            # The worker is already starting, and is the one that is wanted.
            starting.is_withdrawn = False
            return None
        demand = self.waiting.want(now, seen, **fields)
        if demand is None:
            return None
        self.dispatch_in(demand.room, now)
        return demand if demand.count else None

    def withdraw_actor(self, actor: bytes) -> None:
        """Withdraw the demand of an actor that must not be placed any more."""
        self.waiting.withdraw_actor(actor)
        starting = self._starting_for(actor)
        if starting is not None:
            starting.is_withdrawn = True

    def _starting_for(self, actor: bytes) -> Demand | None:
        """Return the demand of an actor whose worker is just starting; None if no such worker is
        starting.
        """
        leases = self.leases.values()
        demands = (x.demand for x in leases if x.demand.actor == actor and not x.is_granted)
        return next(demands, None)

    def hold_starts(self, now: float, until: float) -> bool:
        """Start no process before the time `until`, because the start of a process has failed.
        Returns False if starts were delayed already.
        """
        is_news = now >= self._starts_held_until
        self._starts_held_until = until
        return is_news

    def dispatch(self, now: float) -> None:
        """Meet the demands for which resources are free, and make leases due for the other
        demands.
        """
        self._is_stale = True
        self._dispatch_stale(now)

    def dispatch_in(self, room: bytes | None, now: float) -> None:
        """Dispatch the demands of one placement group, because its resources have changed. Demands
        that had resources but lacked a worker are dispatched, too.

        `room`: the group; None for the demands outside of all groups. So a change in one of many
        groups causes no work for the demands of other groups.
        """
        self._changed[room] = None
        self._dispatch_stale(now)

    def _dispatch_stale(self, now: float) -> None:
        if self._is_dispatching:
            return  # called from an effect that freed something: the loop below runs once more
        self._is_dispatching = True
        try:
            while self._is_stale or self._changed:
                demands = [*self.waiting.all(), *self.claims.all()]
                if not self._is_stale:
                    changed = self._changed
                    demands = [d for d in demands if d.lacks_worker or d.room in changed]
                self._is_stale, self._changed = False, {}
                self._dispatch(demands, now)
        finally:
            self._is_dispatching = False

    def _dispatch(self, demands: list[Demand], now: float) -> None:
        kept = EMPTY
        for demand in self.turns.in_order(demands):
            if demand.is_claim:
                kept = kept + demand.place
                if not self._has_free(kept, soon=True):
                    self._make_due(demand, now)
                continue
            if demand.lacks_worker and not self._has_worker(demand, now):
                continue
            try:
                self._meet(demand, now, kept)
            except Exception as error:  # an error of one demand must not delay the others
                self.waiting.remove(demand)
                text = f"an internal error on the node: {type(error).__name__}: {error}"[:300]
                demand.asker.refused(demand, text, code_of(SystemFailureError))

    def _meet(self, demand: Demand, now: float, kept: ResourceSet) -> None:
        """Give a demand the workers for which this node has room now, or refuse the demand. If the
        demand still lacks workers, make another lease due for it.

        `kept`: the resources that are kept for gangs.
        """
        refusal = self._too_many_actors(demand) or self._refusals.of(demand, now, self.is_draining)
        if refusal is not None:
            reason, code = refusal
            if code or not demand.warned:
                demand.warned = True
                demand.asker.refused(demand, reason, code)
            if code:
                self.waiting.remove(demand)
            return
        demand.warned = False
        if not demand.can_run_here:
            return  # other nodes are asked for workers
        is_admitted = True
        while demand.count > 0 and demand.here != 0:
            is_admitted = self.turns.admit(demand, now)
            if not (is_admitted and self._place(demand, now, kept)):
                break
            demand.count -= 1
            demand.here -= demand.here > 0
        if demand.count <= 0:
            self.waiting.remove(demand)
        elif demand.here != 0 and is_admitted:
            self._make_due(demand, now)

    def _too_many_actors(self, demand: Demand) -> Refusal | None:
        most = self.workers.max_actors
        if not (demand.actor and most and self._actors >= most):
            return None
        files = "as many as its limit of open files allows (ulimit -n)"
        return (f"its node runs {most} actors, {files}", unschedulable(demand))

    def _pools(self, demand: Demand) -> Iterator[NodeResources | BundlePool]:
        if demand.group is None:
            yield self.resources
        else:
            # Bundles with devices that the demand does not use are left for demands that use them.
            pools = self.groups.pools(demand.group)
            yield from sorted(pools, key=lambda p: any(x not in demand.place for x in p.devices))

    def _has_free(self, amounts: ResourceSet, soon: bool = False) -> bool:
        """Whether these amounts are free. With `soon`: whether these amounts will be free once the
        due leases are returned.
        """
        free = ResourceSet.from_mapping(self.resources.available())
        if soon:
            due = (x.demand.hold for x in self.leases.values() if x.is_due and x.is_yielding)
            free = sum(due, free)
        return amounts.is_subset(free)

    def _place(self, demand: Demand, now: float, kept: ResourceSet) -> bool:
        """Make a lease for one more worker of a demand, and start the worker if no idle worker
        fits. Returns False if there is no room besides the resources that are `kept` for gangs, or
        no worker.
        """
        for pool in self._pools(demand):
            if not pool.can_now(demand.place):
                continue
            if kept and demand.group is None and not self._has_free(kept + demand.place):
                continue
            demand.lacks_worker = not self._has_worker(demand, now)
            if demand.lacks_worker:
                return False  # this is tried again when a worker is ready, or at the next tick
            cpus, rest = _split(demand.hold)
            held_cpus, held_rest = pool.acquire(cpus), pool.acquire(rest)
            assert held_cpus is not None
            assert held_rest is not None, "what is held is part of what was free to place"
            worker = self.workers.take(*demand.kind)
            self.last_lease += 1
            lease = Lease(
                number=self.last_lease,
                demand=demand,
                worker=worker,
                cpus=held_cpus,
                rest=held_rest,
                pool=pool,
                since=now,
            )
            self.leases[lease.number] = lease
            self._actors += bool(demand.actor)
            self.turns.begins(demand)
            self.waiting.made(demand)
            worker.lease = lease.number
            if worker.is_ready:
                self._grant(lease, now)
            elif not worker.is_started:
                worker.is_started = True
                self._effects.start_worker(worker)
            return True
        return False

    def _has_worker(self, demand: Demand, now: float) -> bool:
        """Whether a worker of the demand's kind is idle, or another process may be started."""
        may_start = self.workers.may_start and now >= self._starts_held_until
        return may_start or self.workers.has_idle(*demand.kind)

    def _make_due(self, demand: Demand, now: float) -> None:
        there = (x for x in self.leases.values() if x.demand.room == demand.room)
        victim, ripe_at = self.turns.victim(demand, there, now)
        if victim is not None:
            victim.is_due = True
            victim.demand.asker.due(victim)
        else:
            self.look_at = min(self.look_at, ripe_at)

    def claim(self, message: ClaimRoom, now: float) -> None:
        """Keep room for a gang; if the message names no amounts, stop keeping it."""
        self.claims.set(message, now)
        self.dispatch(now)

    def end_claim(self, group: GroupId) -> None:
        """Stop keeping room for a gang, because the gang gets its places."""
        self.claims.end(group)

    def yields(self) -> ResourceSet:
        """Return the resources that ordinary tasks hold outside of bundles and would yield to a
        gang.
        """
        holds = (x.demand.hold for x in self.leases.values() if x.is_yielding)
        return sum(holds, EMPTY)

    # ---- leases ------------------------------------------------------------------------------

    def set_totals(self, totals: Mapping[str, float], now: float) -> None:
        """Set this node's totals. Leases stay, even if they hold more than the new totals."""
        for name, amount in totals.items():
            self.resources.set_total(name, amount)
        self.dispatch(now)

    def set_weights(self, weights: Mapping[str, float], now: float) -> None:
        """Set which queues exist, and their weights.

        Demands for any other queue fail, and owners return that queue's leases after the running
        task.
        """
        self.turns.shares.weights = weights
        self._begin_nothing_new(now)

    def drain(self, now: float) -> None:
        """Begin no new work. Owners return their leases after the running task."""
        self.is_draining = True
        self._begin_nothing_new(now)

    def undrain(self, now: float) -> None:
        """Take new work again."""
        self.is_draining = False
        self._look_again(now)

    def _begin_nothing_new(self, now: float) -> None:
        for lease in list(self.leases.values()):
            if lease.is_granted:
                self._make_due_if_over(lease)
        self._look_again(now)

    def _look_again(self, now: float) -> None:
        """Dispatch all demands, including those that lacked a worker: some of these may be refused
        now.
        """
        for demand in self.waiting.all():
            demand.lacks_worker = False
        self.dispatch(now)

    def _make_due_if_over(self, lease: Lease) -> None:
        """Make a lease due if the node drains or the lease's queue was deleted."""
        demand = lease.demand
        is_over = self.is_draining or self._refusals.is_deleted(demand)
        if is_over and not (demand.actor or demand.group or lease.is_due):
            lease.is_due = True
            demand.asker.due(lease)

    def returned(self, number: int, reusable: bool, now: float) -> None:
        """Take back a lease that its owner has returned."""
        lease = self.leases.get(number)
        if lease is None:
            return
        self._end(lease, now)
        worker = lease.worker
        if reusable:
            self.workers.put_back(worker, now)
        else:
            worker.is_leaving = True
        self.dispatch_in(lease.demand.room, now)

    def blocked(self, worker_id: bytes, now: float) -> None:
        """Release the CPUs of a worker whose task waits in `get`."""
        lease = self._lease_of(worker_id)
        if lease is None or lease.is_blocked or lease.demand.actor:
            return
        lease.is_blocked = True
        lease.pool.release(lease.cpus)
        self.dispatch_in(lease.demand.room, now)

    def unblocked(self, worker_id: bytes) -> None:
        """Take the CPUs again for a worker whose task continues, even if they are not free."""
        lease = self._lease_of(worker_id)
        if lease is None or not lease.is_blocked:
            return
        lease.is_blocked = False
        lease.pool.force_acquire(lease.cpus.resources)

    def _lease_of(self, worker_id: bytes) -> Lease | None:
        worker = self.workers.get(worker_id)
        return None if worker is None else self.leases.get(worker.lease)

    def _end(self, lease: Lease, now: float) -> None:
        del self.leases[lease.number]
        self._actors -= bool(lease.demand.actor)
        if lease.is_granted and not lease.demand.actor:
            self.run_s = self.run_s.with_sample(max(now - lease.since, 0))
        self.turns.ends(lease.demand)
        lease.worker.lease = 0
        if not lease.is_blocked:
            lease.pool.release(lease.cpus)
        lease.pool.release(lease.rest)

    # ---- workers -----------------------------------------------------------------------------

    def worker_ready(self, worker_id: bytes, pid: int, now: float, forked_as: int = 0) -> None:
        """Note that a worker's process has introduced itself. `forked_as`: see WorkerRecord."""
        worker = self.workers.ready(worker_id, pid, now, forked_as)
        if worker is None:
            return
        lease = self.leases.get(worker.lease)
        if lease is not None:
            self._grant(lease, now)
        self.dispatch(now)

    def _grant(self, lease: Lease, now: float) -> None:
        lease.is_granted = True
        lease.since = now
        self._waited(max(now - lease.demand.since, 0.0))
        lease.demand.asker.granted(lease)
        self._make_due_if_over(lease)

    def worker_gone(self, worker_id: bytes, now: float) -> Lease | None:
        """Forget a worker whose process has ended. Returns its lease; None if it had none."""
        worker = self.workers.remove(worker_id)
        if worker is None:
            return None
        lease = self.leases.get(worker.lease)
        if lease is not None:
            self._end(lease, now)
            if not lease.is_granted:
                self.waiting.stand_again(lease.demand)
        self.dispatch(now)
        return lease

    def owner_gone(self, owner: bytes, now: float) -> list[Lease]:
        """Drop the demands of an owner that has ended, and end the workers of its leases. Returns
        these leases.
        """
        self.waiting.owner_gone(owner)
        mine = [x for x in self.leases.values() if x.demand.owner == owner and not x.demand.actor]
        for lease in mine:
            lease.worker.is_leaving = True  # the worker serves no other owner before it has ended
            self._effects.stop_worker(lease.worker, "its owner died", True)
        return mine

    def warn_in(self, pools: Sequence[NodeResources | BundlePool]) -> None:
        """Warn the workers in these bundles that they are preempted, so that they can prepare for
        the end.
        """
        for lease in list(self.leases.values()):
            if any(lease.pool is pool for pool in pools):
                lease.worker.is_leaving = True
                self._effects.warn_worker(lease.worker)

    def end_in(self, pools: Sequence[NodeResources | BundlePool], reason: str) -> None:
        """End the workers in these bundles."""
        for lease in list(self.leases.values()):
            if any(lease.pool is pool for pool in pools):
                lease.worker.is_leaving = True
                self._effects.stop_worker(lease.worker, reason, True)

    def end_all(self, reason: str, by_force: bool) -> None:
        """End all work of this node, in bundles and outside of them. `by_force`: whether the
        workers are killed immediately, without a warning.
        """
        for lease in list(self.leases.values()):
            lease.worker.is_leaving = True
            if by_force:
                self._effects.stop_worker(lease.worker, reason, True)
            else:
                self._effects.warn_worker(lease.worker)

    def round(self, now: float) -> None:
        """Look at the waiting demands again if that is due. Call this after each round of
        messages.
        """
        if now >= self.look_at:
            self.look_at = math.inf
            self.dispatch(now)

    def tick(self, now: float) -> None:
        """End workers that were idle for too long, and look at the waiting demands again."""
        for worker in self.workers.surplus(now):
            self._effects.stop_worker(worker, "idle", False)
        expired = self.claims.tick(now)
        if self.waiting or self.claims.all() or expired:
            self._look_again(now)


def _split(resources: ResourceSet) -> tuple[ResourceSet, ResourceSet]:
    """Return two parts: the CPUs, which are lent while a task waits, and all other resources."""
    cpus = {n: u for n, u in resources.items() if n == "CPU"}
    rest = {n: u for n, u in resources.items() if n != "CPU"}
    return ResourceSet(cpus), ResourceSet(rest)
